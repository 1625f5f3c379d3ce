"""The contract of a value format: each row of the table of formats is tried."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_values import values_of
from penstock.declaration.columns import parse_type
from penstock.declaration.formats import FORMATS, WHOLE_VALUE_TYPES, KeyFormat, ValueFormat
from penstock.model.records import Batch
from penstock.records.columns.conversions import arrow_type
from penstock.records.decoder import Decoded, Decoder, Layout
from penstock.records.formats.base import Field, Rejections
from penstock.records.formats.registry import make_format
from penstock.records.rejection import Reason

NAMES: list[ValueFormat] = list(FORMATS)


def list_fields(name: ValueFormat, *, required: bool = False) -> tuple[Field, ...]:
    """The column of a whole value, or the columns of the example's parts."""
    whole = FORMATS[name].whole
    if whole is not None:
        return (Field("whole", whole, (), required),)
    return (
        Field("id", parse_type("bigint"), ("id",), required),
        Field("note", parse_type("text"), ("note",), required),
    )


def decode(name: ValueFormat, values: list[bytes | None], *, required: bool = False) -> Decoded:
    batch = Batch(
        partition=0,
        offsets=np.arange(len(values)),
        timestamps=np.zeros(len(values), np.int64),
        values=values,
        keys=[None] * len(values),
        headers=lambda _: [],
    )
    return Decoder(Layout(list_fields(name, required=required), name), 7).decode(batch)


def describe(decoded: Decoded) -> tuple[dict[int, Any], dict[int, str]]:
    """The rows and the reasons, by offset."""
    rows = {row["_offset"]: row for row in decoded.rows.to_pylist()}
    return rows, {each.offset: each.reason for each in decoded.rejected}


def test_the_names_of_formats_are_the_rows_of_the_table() -> None:
    assert set(FORMATS) == set(get_args(ValueFormat))
    assert set(WHOLE_VALUE_TYPES) == set(get_args(KeyFormat))


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_format_becomes_a_row(name: ValueFormat) -> None:
    rows, reasons = describe(decode(name, [FORMATS[name].example], required=True))
    assert reasons == {}
    wanted = {"whole": FORMATS[name].example} if FORMATS[name].whole else {"id": 7, "note": "first"}
    for column, value in wanted.items():
        assert rows[0][column] in (value, value.decode(errors="replace") if isinstance(value, bytes) else value)


@pytest.mark.parametrize("name", NAMES)
def test_a_format_gives_an_array_of_its_type_for_each_column_and_an_entry_for_each_value(name: ValueFormat) -> None:
    values = [FORMATS[name].example, None, b"\xff{", FORMATS[name].example]
    rejections: Rejections = {}
    arrays = make_format(name, list_fields(name)).read_columns(values, rejections)
    assert [array.type for array in arrays] == [arrow_type(field.type) for field in list_fields(name)]
    assert {len(array) for array in arrays} == {len(values)}
    assert [array[1].is_valid for array in arrays] == [False] * len(arrays)
    assert set(rejections) <= {2}


@pytest.mark.parametrize("name", NAMES)
def test_a_record_without_a_value_is_rejected_in_every_format(name: ValueFormat) -> None:
    assert describe(decode(name, [None])) == ({}, {0: "null_value"})


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_bytes_are_a_row_or_a_rejection_alone_and_in_a_batch(name: ValueFormat, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | st.binary(max_size=12) | values_of(name), min_size=1, max_size=6))
    together, reasons = describe(decode(name, values, required=True))
    assert together.keys() | reasons.keys() == set(range(len(values)))
    assert set(reasons.values()) <= set(get_args(Reason))
    for offset, value in enumerate(values):
        rows, alone = describe(decode(name, [value], required=True))
        assert alone.get(0) == reasons.get(offset)
        if rows:
            assert rows[0] | {"_offset": offset} == together[offset]


@pytest.mark.parametrize("name", NAMES)
def test_the_detail_of_a_rejection_quotes_nothing_of_the_value(name: ValueFormat) -> None:
    canary = b"canary4711"
    for value in (canary + b"\xff", FORMATS[name].example + canary, b'{"id": "' + canary + b'"}'):
        assert not [each for each in decode(name, [value]).rejected if "canary" in each.detail]
