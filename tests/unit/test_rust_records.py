"""The record path in Rust takes no record that its reference rejects, and reads no value differently. No services."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from column_samples import EDGES, EVERY_SPELLING, INVALID_RECORDS
from declaring import declare
from penstock import rust_package
from penstock.declaration.columns import parse_type
from penstock.doctor.examination import describe_path
from penstock.records.decoder import Layout
from penstock.records.formats.base import Field
from penstock.records.rust import make_encoder
from penstock.spark.submit import ship_rust
from record_differences import compare, make_batch_of, run

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 20_261_119
NAMES = st.sampled_from(["a", "b", "ä", "", "long name"])
FIELDS = st.lists(
    st.builds(
        Field,
        st.just("c"),
        st.sampled_from(EVERY_SPELLING).map(parse_type),
        st.lists(NAMES, min_size=1, max_size=3).map(tuple),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8) | st.dates().map(str)
)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=8
)


def take(fields: Sequence[tuple[str, str]], values: list[bytes | None], **more: Any) -> int:
    """Compare both paths; returns how many records Rust takes itself."""
    columns = tuple(Field(name, parse_type(type_), (name,)) for name, type_ in fields)
    return compare(Layout(columns, **more), make_batch_of(values))


@pytest.mark.parametrize("type_", EVERY_SPELLING)
def test_every_edge_of_a_type_is_read_as_by_the_reference(type_: str) -> None:
    values: list[bytes | None] = [f'{{"c": {edge}}}'.encode() for edge in EDGES]
    assert take([("c", type_)], values + INVALID_RECORDS) >= 1, "null fits every type"


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_every_edge_of_an_epoch_is_read_as_by_the_reference(unit: str) -> None:
    layout = Layout((Field("c", parse_type("timestamptz"), ("c",), unit=unit),))
    assert compare(layout, make_batch_of([f'{{"c": {edge}}}'.encode() for edge in EDGES])) > 10


def test_random_records_of_random_declarations_are_read_as_by_the_reference() -> None:
    assert run(20_000, SEED) > 2_000, f"seed {SEED}"


@settings(max_examples=200)
@given(fields=FIELDS, values=st.lists(DOCUMENTS, min_size=1, max_size=20))
def test_generated_json_of_generated_declarations_is_read_as_by_the_reference(
    fields: list[Field], values: list[Any]
) -> None:
    named = tuple(Field(f"c{place}", field.type, field.path, field.required) for place, field in enumerate(fields))
    compare(Layout(named), make_batch_of([json.dumps(value).encode() for value in values]))


def test_usual_records_are_all_taken_by_rust() -> None:
    """A record that is left to the reference costs more: usual values of each type must not be."""
    usual = {
        "smallint": "-7", "integer": "7", "bigint": "9223372036854775807", "real": "0.25", "double precision": "1e-05",
        "numeric(12,2)": "12.5", "numeric(38,10)": '"0.0000000001"', "text": '"a \\u00e4 \\ud83d\\ude00 \\n"',
        "varchar(3)": '"äöü"', "char(3)": '"a"', "boolean": "true", "bytea": '"aGk="', "date": '"2024-02-29"',
        "time": '"23:59:59.5"', "timestamp": '"2024-02-29T00:00:00"', "timestamptz": '"2024-01-01 00:00:00.123+02:00"',
        "uuid": '"12345678-1234-5678-1234-567812345678"', "json": '{"a": [1, {"b": null}]}', "jsonb": '[1.5, "\\"x"]',
    }  # fmt: skip
    record = "{" + ",\n".join(f'"c{place}" : {text}' for place, text in enumerate(usual.values())) + ', "more": [{}]}'
    fields = [(f"c{place}", type_) for place, type_ in enumerate(usual)]
    assert take(fields, [record.encode(), b"{}"]) == 2


def test_records_of_overlapping_and_nested_paths_are_taken_by_rust() -> None:
    paths = {"whole": (), "a": ("a",), "b": ("a", "b"), "deep": ("a", "c", "d"), "again": ("a", "b")}
    types = dict.fromkeys(paths, "jsonb") | {"b": "bigint", "deep": "text", "again": "bigint"}
    layout = Layout(tuple(Field(name, parse_type(types[name]), path) for name, path in paths.items()))
    values = [b'{"a": {"b": 1, "c": {"d": "x"}}}', b'{"a": null}', b'{"a": {"c": null}}', b'{"z": 1}']
    assert compare(layout, make_batch_of(values)) == 4


@pytest.mark.parametrize(("length", "taken"), [(2_600, 1), (2_700, 0)])
def test_a_value_too_long_for_an_index_is_left_to_the_reference(length: int, taken: int) -> None:
    value = b'{"c": "%s"}' % (b"x" * length)
    assert take([("c", "text")], [value], indexes=(("c",),)) == taken


def test_a_member_that_is_there_twice_is_left_to_the_reference() -> None:
    assert take([("c", "bigint")], [b'{"c": 1, "c": 2}', b'{"c": 1, "x": 1, "x": 2}', b'{"c": 1, "\\u0063": 2}']) == 1


@pytest.mark.parametrize("depth", [60, 70, 500, 100_000])
def test_any_depth_is_a_row_or_a_rejection(depth: int) -> None:
    value = b'{"c": %s, "x": %s}' % (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth)
    assert take([("c", "jsonb")], [value]) == (depth == 60)


def test_many_records_after_a_huge_one_are_encoded() -> None:
    """The encoder reserves memory by the rows of the batch before: 400 GB for this one, without a bound."""
    encoder = make_encoder(Layout((Field("c", parse_type("text"), ("c",)),)), 7)
    assert encoder is not None
    assert encoder.encode(make_batch_of([b'{"c": "%s"}' % (b"x" * 20_000_000)])).count == 1
    assert encoder.encode(make_batch_of([b'{"c": "y"}'] * 20_000)).count == 20_000


def test_numbers_behind_the_reach_of_a_float_are_exact() -> None:
    numbers = ["9007199254740993.01", "0.1", "1" * 27 + ".0123456789", "-0.0000000001", "1e-10", "123e5"]
    assert take([("c", "numeric(38,10)")], [f'{{"c": {number}}}'.encode() for number in numbers]) == len(numbers)


def test_a_panic_leaves_the_whole_batch_to_the_reference(capfd: pytest.CaptureFixture[str]) -> None:
    """A fault of the crate itself, here by a limit on a field that no row has, must not end a load or the process."""
    package = rust_package.require_package()
    columns = [(["c"], "text", 0, 0, None, False)]
    records = [b'{"c": "a"}', b'{"c": "b"}'], [None, None], 0, [0, 1], [0, 0]
    rows, uncertain, log_hash = package.Encoder(1, columns, None, keeps_tombstones=False, limits=[]).encode(*records)
    assert (len(rows) > 0, uncertain) == (True, [])

    faulty = package.Encoder(1, columns, None, keeps_tombstones=False, limits=[(100, [99])])
    assert faulty.encode(*records) == faulty.encode(*records) == (b"", [0, 1], log_hash)
    assert "panicked" in capfd.readouterr().err


def test_without_the_package_there_is_no_encoder_and_doctor_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_path(declare("orders"), rust=True).found == "rust"
    assert describe_path(declare("orders"), rust=False).found == "python: PENSTOCK_RUST=off"
    assert describe_path(declare("orders", reader="spark"), rust=True).found == "python: reader: spark"
    monkeypatch.setitem(sys.modules, "penstock_native", None)
    rust_package.find_package.cache_clear()
    try:
        assert make_encoder(Layout((Field("c", parse_type("text"), ("c",)),)), 7) is None
        assert describe_path(declare("orders"), rust=True).found == "python: penstock_native is not installed"
    finally:
        rust_package.find_package.cache_clear()


def test_executors_get_the_library_that_is_installed_here() -> None:
    assert ship_rust()["spark.files"].endswith(".so")
