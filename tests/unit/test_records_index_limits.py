"""The values that a declared index can hold. No services."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from penstock.declaration.columns import parse_type
from penstock.model.records import Batch
from penstock.records.decoder import Decoder, Layout
from penstock.records.formats.base import Field

if TYPE_CHECKING:
    from collections.abc import Sequence


def decode(types: dict[str, str], indexes: Sequence[tuple[str, ...]], values: Sequence[dict[str, str]]) -> list[str]:
    """Decode values: for each one `row`, or the reason of its rejection."""
    fields = tuple(Field(name, parse_type(type_), (name,)) for name, type_ in types.items())
    batch = Batch(
        partition=0,
        offsets=np.arange(len(values)),
        timestamps=np.zeros(len(values), np.int64),
        values=[json.dumps(value).encode() for value in values],
        keys=[b"k" * 3000] * len(values),
        headers=lambda _: [],
    )
    decoded = Decoder(Layout(fields, key="text", indexes=tuple(indexes)), 1).decode(batch)
    reasons = {record.offset: f"{record.reason}: {record.detail}" for record in decoded.rejected}
    return [reasons.get(offset, "row") for offset in range(len(values))]


def test_a_value_too_long_for_its_index_is_rejected_and_its_neighbours_are_rows() -> None:
    values = [{"a": "x" * 2656}, {"a": "x" * 2657}, {"a": "é" * 1400}, {}]
    assert decode({"a": "text"}, [("a",)], values) == [
        "row",
        "too_long: column a: 2657 bytes where the index on a takes 2656",
        "too_long: column a: 2800 bytes where the index on a takes 2656",
        "row",
    ]


def test_columns_of_one_index_share_its_limit_and_other_columns_have_none() -> None:
    values = [{"a": "x" * 1300, "b": "y" * 1400}, {"a": "x" * 1200, "b": "y" * 1400}, {"c": "z" * 100_000}]
    assert decode({"a": "text", "b": "text", "c": "text"}, [("a", "b")], values) == [
        "too_long: column a: 2700 bytes where the index on a, b takes 2632",
        "row",
        "row",
    ]


def test_the_key_is_measured_and_char_is_measured_with_its_padding() -> None:
    assert decode({"a": "text"}, [("_key",)], [{"a": "x"}])[0].startswith("too_long: column _key: 3000 bytes")
    assert decode({"a": "char(2700)"}, [("a",)], [{"a": "x"}])[0].startswith("too_long: column a: 2700 bytes")


@pytest.mark.parametrize("type_", ["bigint", "numeric(76,0)", "uuid", "timestamptz"])
def test_an_index_without_texts_has_no_limit(type_: str) -> None:
    assert decode({"a": type_}, [("a",)], [{}]) == ["row"]
