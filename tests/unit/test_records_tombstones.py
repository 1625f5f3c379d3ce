"""Records without value: as rows with their keys, and as rejections with a reason. No services."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from column_samples import SAMPLES
from declaring import declare
from penstock.declaration.columns import parse_type
from penstock.model.records import Batch
from penstock.records.decoder import Decoder, layout_of

if TYPE_CHECKING:
    from collections.abc import Sequence

UPSERT = {"table": "analytics.newest", "mode": "upsert", "key": ["id"], "deleted_when": "tombstone"}
NOTE = {"id": {"type": "bigint", "required": True}, "note": {"type": "text"}}


def decode(
    records: Sequence[tuple[bytes | None, bytes | None]], **declared: Any
) -> tuple[list[dict[str, Any]], dict[int, tuple[str, str]]]:
    """The rows, and the reasons by offset, of pairs of key and value."""
    batch = Batch(
        partition=0,
        offsets=np.arange(len(records)),
        timestamps=np.zeros(len(records), np.int64),
        values=[value for _, value in records],
        keys=[key for key, _ in records],
        headers=lambda _: [],
    )
    pipeline = declare("topic", **({"columns": NOTE, "tombstones": "keep", "results": [UPSERT]} | declared))
    decoded = Decoder(layout_of(pipeline), 7).decode(batch)
    names = ("_offset", "_tombstone", *(column.name for column in pipeline.columns))
    rows = [{name: row[name] for name in names} for row in decoded.rows.to_pylist()]
    return rows, {each.offset: (each.reason, each.detail) for each in decoded.rejected}


def test_a_record_without_value_is_a_row_with_the_paths_of_its_key() -> None:
    value = b'{"id": 7, "note": "first"}'
    rows, rejected = decode(
        [(b'{"k": {"id": 7}}', value), (b'{"k": {"id": 7}}', None), (b"x", b"no JSON"), (b'{"k": {"id": 8}}', None)],
        key_columns={"id": "$.k.id"},
    )
    assert rows == [
        {"_offset": 0, "_tombstone": False, "id": 7, "note": "first"},
        {"_offset": 1, "_tombstone": True, "id": 7, "note": None},
        {"_offset": 3, "_tombstone": True, "id": 8, "note": None},
    ]
    assert {offset: reason for offset, (reason, _) in rejected.items()} == {2: "bad_json"}


def test_a_key_that_fills_no_row_is_rejected_with_its_reason() -> None:
    keys = [None, b"no JSON", b'{"id": null}', b"{}", b'{"id": "7"}', b"\xff", b'{"id": 9223372036854775808}', b""]
    rows, rejected = decode([(key, None) for key in keys], key_columns={"id": "$.id"})
    assert rows == []
    assert [reason for reason, _ in rejected.values()] == [
        "null_value", "bad_json", "missing_required", "missing_required", "wrong_type", "bad_json", "out_of_range",
        "bad_json",
    ]  # fmt: skip
    assert all(detail.startswith("the key: ") for reason, detail in rejected.values() if reason != "null_value")


@pytest.mark.parametrize(
    ("type_", "key", "value"),
    [
        ("text", b'say "7"\n', 'say "7"\n'),
        ("bigint", b"-42", -42),
        ("boolean", b"true", True),
        ("bytea", b"ab", b"ab"),
        ("date", b"2026-01-31", date(2026, 1, 31)),
        ("numeric(6,2)", b"12.50", Decimal("12.50")),
        ("uuid", str(UUID(int=7)).encode(), UUID(int=7).bytes),
    ],
)
def test_the_text_of_a_key_becomes_the_one_key_column(type_: str, key: bytes, value: object) -> None:
    columns = {"id": {"type": type_}, "note": {"type": "text"}}
    [row], rejected = decode([(key, None)], columns=columns, key="text")
    assert not rejected
    assert row["id"] == value


def test_every_type_of_a_text_key_is_read_or_rejected() -> None:
    for type_ in SAMPLES:
        if parse_type(type_).family not in ("json", "jsonb"):
            columns = {"id": {"type": type_}, "note": {"type": "text"}}
            rows, rejected = decode([(b"7", None), (b"\xff", None)], columns=columns, key="text")
            assert len(rows) + len(rejected) == 2


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, b"1", b"2", b"x", b'"3"']), st.sampled_from([None, b'{"id": 1}', b"{}", b"x"])
        ),
        max_size=8,
    )
)
def test_a_record_is_decoded_alike_alone_and_in_any_batch(records: list[tuple[bytes | None, bytes | None]]) -> None:
    rows, rejected = decode(records, key_columns={"id": "$"})
    alone = [decode([record], key_columns={"id": "$"}) for record in records]
    assert [row | {"_offset": 0} for row in rows] == [row for found, _ in alone for row in found]
    assert list(rejected.values()) == [reason for _, found in alone for reason in found.values()]
