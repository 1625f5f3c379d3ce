"""Decoding: every value becomes a row or a rejected record with a reason. No services."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from column_samples import EVERY_SPELLING, SAMPLES
from penstock.declaration.columns import MAX_STEPS, TYPES, Family, families_of, parse_type
from penstock.model.records import Batch
from penstock.records.columns.conversions import CONVERSIONS
from penstock.records.decoder import MAX_VALUE, Decoder, Layout
from penstock.records.formats.base import Field
from penstock.records.formats.json import READ_AS, make_json_column
from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence


def batch_of(values: Sequence[bytes | None], keys: Sequence[bytes | None] = (), timestamp: int = 0) -> Batch:
    return Batch(
        partition=3,
        offsets=np.arange(100, 100 + len(values)),
        timestamps=np.full(len(values), timestamp),
        values=values,
        keys=keys or [None] * len(values),
        headers=lambda _: [("trace", b"\xff")],
    )


def decode_one(type_: str, value: bytes | None, *, required: bool = False, unit: str | None = None) -> Any:
    """Decode one value: return the value of the only column, or the reason of the rejection."""
    layout = Layout((Field("c", parse_type(type_), ("c",), required, unit),))
    decoded = Decoder(layout, 7).decode(batch_of([value]))
    assert len(decoded.rows) + len(decoded.rejected) == 1
    return decoded.rejected[0].reason if decoded.rejected else decoded.rows.column(0)[0].as_py()


def test_a_value_is_found_at_the_end_of_the_longest_allowed_path() -> None:
    path = ("a",) * MAX_STEPS
    decoder = Decoder(Layout((Field("c", parse_type("bigint"), path),)), 7)
    decoded = decoder.decode(batch_of([b'{"a":' * MAX_STEPS + b"1" + b"}" * MAX_STEPS, b'{"a": 1}']))
    assert decoded.rows.column(0).to_pylist() == [1]
    assert [record.reason for record in decoded.rejected] == ["wrong_type"]


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("smallint", "-32768", -32768),
        ("smallint", "32768", "out_of_range"),
        ("integer", "2147483648", "out_of_range"),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("bigint", "9223372036854775808", "out_of_range"),
        ("bigint", "9007199254740993.0", "wrong_type"),
        ("bigint", '"1"', "wrong_type"),
        ("bigint", "true", "wrong_type"),
        ("real", "1e39", "out_of_range"),
        ("real", "1e-60", "out_of_range"),
        ("real", "0.5", 0.5),
        ("real", "1e-400", "out_of_range"),
        ("real", "-0.0", 0.0),
        ("double precision", "1e400", "out_of_range"),
        ("double precision", "1e-400", "out_of_range"),
        ("double precision", "-1e-0400", "out_of_range"),
        ("double precision", f"0.{'0' * 400}1", "out_of_range"),
        ("double precision", "0e-400", 0.0),
        ("double precision", f"0.{'0' * 400}", 0.0),
        ("double precision", "5e-324", 5e-324),
        ("double precision", "9007199254740993", 9007199254740992.0),
        ("double precision", "NaN", "bad_json"),
        ("boolean", "true", True),
        ("boolean", "1", "wrong_type"),
        ("numeric(5,2)", "1.10", Decimal("1.10")),
        ("numeric(5,2)", "1.100", Decimal("1.10")),
        ("numeric(5,2)", "1.101", "out_of_range"),
        ("numeric(5,2)", "999.99", Decimal("999.99")),
        ("numeric(5,2)", "1000", "out_of_range"),
        ("numeric(5,2)", "1e2", Decimal("100.00")),
        ("numeric(5,2)", "1e99999999999999999999", "out_of_range"),
        ("numeric(5,2)", '"12.5"', Decimal("12.50")),
        ("numeric(5,2)", '"1_0"', "wrong_type"),
        ("numeric(5,2)", '"NaN"', "out_of_range"),
        ("numeric(5,2)", '"-Infinity"', "out_of_range"),
        ("numeric(5,2)", "[]", "wrong_type"),
        ("numeric(38,0)", "1" * 39, "out_of_range"),
        # Arrow alone would make wrong numbers of these: widened by their scale, they overflow.
        ("numeric(38,10)", "4223255280880804142834597167325", "out_of_range"),
        ("numeric(38,10)", "35337424910931792818546590234.1760190", "out_of_range"),
        ("numeric(38,10)", "1234567890123456789012345678.9", Decimal("1234567890123456789012345678.9")),
        # Arrow alone would make 0 of both: they have more digits than its decimal holds.
        (
            "numeric(5,0)",
            "99953850525366757106559135807296.04609700106098730000802186800772088507819068520932210960856",
            "out_of_range",
        ),
        (
            "numeric(20,10)",
            "90202023449774706179960672582858519033579741966.3480030009657002107325420196424704856960000113083",
            "out_of_range",
        ),
        ("numeric(76,10)", "0.1234567891", Decimal("0.1234567891")),
        ("text", '"a\\u0000b"', "nul_byte"),
        ("text", '"\\ud800"', "bad_utf8"),
        ("text", '"\\udc00x"', "bad_utf8"),
        ("text", '"\\ud800', "bad_json"),
        ("bigint", "1" * 5000, "out_of_range"),
        ("smallint", "-" + "1" * 5000, "out_of_range"),
        ("numeric(76,0)", "1" * 5000, "out_of_range"),
        ("varchar(3)", '"äöü"', "äöü"),
        ("varchar(3)", '"äöü "', "too_long"),
        ("bytea", '"aGk="', b"hi"),
        ("bytea", '"?"', "wrong_type"),
        ("date", '"2024-02-29"', datetime(2024, 2, 29, tzinfo=UTC).date()),
        ("date", '"2023-02-29"', "bad_timestamp"),
        ("date", '"0000-01-01"', "bad_timestamp"),
        ("time", '"24:00:00"', "bad_timestamp"),
        ("time", '"10:00:00Z"', "bad_timestamp"),
        ("timestamptz", '"2024-01-01T00:00:00+02:00"', datetime(2023, 12, 31, 22, tzinfo=UTC)),
        ("timestamptz", '"2024-01-01T00:00:00.9999999Z"', datetime(2024, 1, 1, 0, 0, 0, 999999, tzinfo=UTC)),
        ("timestamptz", '"2024-01-01T00:00:00"', "bad_timestamp"),
        ("timestamptz", "1704067200", "wrong_type"),
        ("timestamp", '"2024-01-01T00:00:00Z"', "bad_timestamp"),
        ("uuid", '"nope"', "wrong_type"),
        ("jsonb", '{"a": "\\u0000"}', "nul_byte"),
        ("jsonb", '{"a\\u0000": 1}', "nul_byte"),
        ("jsonb", '"\\ud800x"', "bad_utf8"),
        ("jsonb", "1e200000", "out_of_range"),
        ("jsonb", "[" * 500 + "]" * 500, "bad_json"),
        ("json", '{"b": 1, "a": 2}', '{"b": 1, "a": 2}'),
    ],
)
def test_a_value_is_exact_in_the_row_or_rejected_with_a_stable_reason(type_: str, text: str, expected: Any) -> None:
    assert decode_one(type_, f'{{"c": {text}}}'.encode()) == expected


@pytest.mark.parametrize(
    ("unit", "text", "expected"),
    [
        ("s", "1704067200", datetime(2024, 1, 1, tzinfo=UTC)),
        ("s", "1704067200.0000019", datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ("ms", "-1", datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
        ("us", "1e15", datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)),
        ("ms", "9223372036854775807", "out_of_range"),
        ("s", "-300000000000", "out_of_range"),
        ("s", "1e-999999", datetime(1970, 1, 1, tzinfo=UTC)),
        ("s", "1e999999", "out_of_range"),
        ("s", '"1704067200"', "wrong_type"),
    ],
)
def test_epoch_numbers_are_exact_within_the_range_of_postgresql(unit: str, text: str, expected: Any) -> None:
    assert decode_one("timestamptz", f'{{"c": {text}}}'.encode(), unit=unit) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null_value"),
        (b"", "bad_json"),
        (b"{", "bad_json"),
        (b'{"c": "1"} x', "bad_json"),
        (b"[]", "wrong_type"),
        (b"null", "wrong_type"),
        (b'{"c": "\xff"}', "bad_utf8"),
        (b'{"c": "' + b"x" * MAX_VALUE + b'"}', "too_large"),
        (b'{"d": ' + b"[" * 100_000, "bad_json"),
    ],
)
def test_a_value_that_is_not_a_json_object_is_rejected(value: bytes | None, reason: str) -> None:
    assert decode_one("text", value) == reason


@pytest.mark.parametrize("type_", ["bigint", "numeric(5,2)", "jsonb", "text", "timestamptz"])
@pytest.mark.parametrize("value", [b"{}", b'{"c": null}'])
def test_a_required_column_rejects_null_and_missing_values(type_: str, value: bytes) -> None:
    assert decode_one(type_, value, required=True) == "missing_required"
    assert decode_one(type_, value) is None


def test_a_rejected_record_is_whole_and_its_detail_quotes_nothing() -> None:
    layout = Layout((Field("card", parse_type("varchar(4)"), ("card",)),), key="text")
    value = b'{"card": "4111111111111111"}'
    decoded = Decoder(layout, 7).decode(batch_of([value], [b"k"], timestamp=5))
    (record,) = decoded.rejected
    assert (record.partition, record.offset, record.key, record.value) == (3, 100, b"k", value)
    assert record.headers == [("trace", b"\xff")]
    assert record.timestamp == 5
    assert "4111" not in record.detail


def test_paths_may_overlap_and_name_the_same_place_twice() -> None:
    fields = (
        Field("whole", parse_type("jsonb"), ()),
        Field("inner", parse_type("jsonb"), ("a",)),
        Field("leaf", parse_type("bigint"), ("a", "weird key")),
        Field("again", parse_type("numeric(9,1)"), ("a", "weird key")),
    )
    decoded = Decoder(Layout(fields), 7).decode(batch_of([b'{"a": {"weird key": 5}}', b'{"a": null}', b'{"a": 1}']))
    rows = decoded.rows.select(["inner", "leaf", "again"]).to_pylist()
    assert rows == [
        {"inner": b'\x01{"weird key": 5}', "leaf": 5, "again": Decimal("5.0")},
        {"inner": None, "leaf": None, "again": None},
    ]
    assert [record.reason for record in decoded.rejected] == ["wrong_type"]


@pytest.mark.parametrize(
    ("key", "expected"), [(b"\xff", "bad_utf8"), (b"a\0", "nul_byte"), (b"ok", "ok"), (None, None)]
)
def test_a_key_that_is_not_text_is_rejected_with_key_text(key: bytes | None, expected: str | None) -> None:
    decoder = Decoder(Layout((Field("c", parse_type("text"), ("c",)),), key="text"), 7)
    decoded = decoder.decode(batch_of([b"{}"], [key]))
    found = decoded.rejected[0].reason if decoded.rejected else decoded.rows.column("_key")[0].as_py()
    assert found == expected


def test_a_record_timestamp_out_of_range_is_rejected_and_a_missing_one_is_null() -> None:
    decoder = Decoder(Layout((Field("c", parse_type("text"), ("c",)),)), 7)
    for timestamp in (2**63 - 1, -(2**62), 9_300_000_000_000_000):
        assert decoder.decode(batch_of([b"{}"], timestamp=timestamp)).rejected[0].reason == "bad_timestamp"
    assert decoder.decode(batch_of([b"{}"], timestamp=-1)).rows.column("_timestamp")[0].as_py() is None


def test_text_and_bytes_fill_the_column_with_the_whole_value() -> None:
    text = Decoder(Layout((Field("body", parse_type("text"), ()),), value="text"), 7)
    decoded = text.decode(batch_of(["grün".encode(), b"\xff", b"a\0", None]))
    assert decoded.rows.column(0).to_pylist() == ["grün"]
    assert [record.reason for record in decoded.rejected] == ["bad_utf8", "nul_byte", "null_value"]
    raw = Decoder(Layout((Field("body", parse_type("bytea"), ()),), value="bytes"), 7)
    decoded = raw.decode(batch_of([b"\xff\0", b"", None]))
    assert decoded.rows.column(0).to_pylist() == [b"\xff\0", b""]
    assert [record.reason for record in decoded.rejected] == ["null_value"]


@pytest.mark.parametrize("type_", SAMPLES)
def test_a_type_takes_a_text_of_json_if_the_reference_says_so(type_: str) -> None:
    family = parse_type(type_).family
    text = json.dumps("YWJj" if family == "bytea" else SAMPLES[type_].value)
    taken = decode_one(type_, f'{{"c": {text}}}'.encode()) != "wrong_type"
    assert taken == ("a text" in TYPES[family].json or family in families_of("document"))


def test_every_type_has_a_conversion() -> None:
    assert set(CONVERSIONS) == set(TYPES) == set(get_args(Family))
    assert set(READ_AS) < set(TYPES)


JSON_TEXT = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False).map(str).filter(lambda text: text.lstrip("-")[0].isdigit())
    | st.datetimes().map(lambda moment: moment.isoformat())
    | st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat(sep=" "))
    | st.dates().map(str)
    | st.times().map(str)
    | st.uuids().map(str)
    | st.from_regex(r"\A\d{4}-\d\d-\d\d[T ]\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?\Z")
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


@pytest.mark.parametrize("type_", EVERY_SPELLING)
@settings(max_examples=50, deadline=None)
@given(values=st.lists(JSON_TEXT, min_size=1, max_size=5))
def test_the_result_for_a_value_does_not_depend_on_its_batch(type_: str, values: list[Any]) -> None:
    decoder = Decoder(Layout((Field("c", parse_type(type_), ("c",)),)), 7)
    records = [json.dumps({"c": value}).encode() for value in values]
    together = decoder.decode(batch_of(records)).rows
    alone = [decoder.decode(batch_of([record])).rows for record in records]
    assert together.column("c").to_pylist() == [value for rows in alone for value in rows.column("c").to_pylist()]
    assert len(together) + len(decoder.decode(batch_of(records)).rejected) == len(records)


@settings(max_examples=500, deadline=None)
@given(
    number=st.from_regex(r"\A-?(0|[1-9][0-9]{0,45})(\.[0-9]{1,45}0{0,40})?\Z"),
    precision=st.integers(1, 76),
    scale=st.integers(0, 76),
)
def test_a_decimal_of_any_digits_is_exact_or_out_of_range(number: str, precision: int, scale: int) -> None:
    scale = min(scale, precision)
    exact = Decimal(number)
    with localcontext() as context:
        context.prec = 300
        fits = abs(exact) < Decimal(10) ** (precision - scale) and exact * 10**scale % 1 == 0
    found = decode_one(f"numeric({precision},{scale})", f'{{"c": {number}}}'.encode())
    assert found == (exact if fits else "out_of_range")


@pytest.mark.parametrize(
    "type_", ["numeric(5,2)", "numeric(38,10)", "date", "time", "timestamp", "timestamptz", "jsonb"]
)
@settings(max_examples=50, deadline=None)
@given(value=JSON_TEXT)
def test_the_fast_way_accepts_no_value_that_the_exact_way_rejects(type_: str, value: Any) -> None:
    column = make_json_column(Field("c", parse_type(type_), ("c",)))
    conversion = column.conversion
    try:
        read = msgspec.json.Decoder(column.read_as).decode(json.dumps(value).encode())
        fast = conversion.convert([read])
    except (Rejection, ValueError, msgspec.DecodeError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return
    assert pa.array([conversion.parse(read)], conversion.arrow).to_pylist() == fast.to_pylist()


def test_a_tiny_number_is_found_in_a_nested_value_and_beside_zeros() -> None:
    fields = (Field("a", parse_type("double precision"), ("x", "a")), Field("b", parse_type("real"), ("b",)))
    values = [b'{"x": {"a": 0}, "b": 1e-500}', b'{"x": {"a": 1e-400}, "b": 0}', b'{"x": null, "b": 0.0, "c": 1e-400}']
    decoded = Decoder(Layout(fields), 7).decode(batch_of(values))
    assert [(record.offset, record.reason) for record in decoded.rejected] == [
        (100, "out_of_range"),
        (101, "out_of_range"),
    ]
    assert decoded.rows["a"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("c",), b'{"\xff":"e-100","c":0}', 0.0),
        (("c",), b'{"\xff":1,"c":1e-400}', "out_of_range"),
        (("a", "c"), b'{"a":{"\xff":1,"c":1e-400}}', "out_of_range"),
        (("c",), b'{"x":"\\ud800","c":1e-400}', "bad_utf8"),
    ],
)
def test_invalid_bytes_beside_a_tiny_number_do_not_hide_it(path: tuple[str, ...], value: bytes, expected: Any) -> None:
    decoded = Decoder(Layout((Field("c", parse_type("double precision"), path),)), 7).decode(batch_of([value]))
    found = decoded.rejected[0].reason if decoded.rejected else decoded.rows["c"][0].as_py()
    assert found == expected
