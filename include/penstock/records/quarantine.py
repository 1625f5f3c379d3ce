"""The quarantine's rows: rejected records as Arrow batches for COPY."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.records.columns import timestamps
from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.model.records import Headers
    from penstock.records.rejection import RejectedRecord

SCHEMA = pa.schema(
    [
        ("load_id", pa.int64()),
        ("attempt", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.binary()),
        ("record_timestamp", timestamps.ISO_FORMS["timestamptz"].arrow),
    ]
)


def make_quarantine(load_id: int, attempt: int, records: Sequence[RejectedRecord]) -> pa.RecordBatch:
    """Make the rows of the table penstock.quarantine."""
    columns = [
        pa.repeat(pa.scalar(load_id, pa.int64()), len(records)),
        pa.repeat(pa.scalar(attempt, pa.int32()), len(records)),
        [record.partition for record in records],
        [record.offset for record in records],
        [record.reason for record in records],
        [_clean(record.detail) for record in records],
        [record.key for record in records],
        [record.value for record in records],
        [write_headers(record.headers) for record in records],
        [_read_timestamp(record) for record in records],
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def estimate_bytes(record: RejectedRecord) -> int:
    """Estimate how many bytes a rejected record takes."""
    return (
        500 + len(record.value or b"") + len(record.key or b"") + sum(len(value or b"") for _, value in record.headers)
    )


def write_headers(headers: Headers) -> bytes:
    """Write headers as jsonb: a value as text if it is UTF-8, otherwise in base64. A name may occur more than once."""
    # The first byte is the version of jsonb's wire format.
    return b"\x01" + json.dumps(describe_headers(headers)).encode()


def describe_headers(headers: Headers) -> list[dict[str, str]]:
    """Describe headers as the quarantine stores them."""
    return [_write_header(name, value) for name, value in headers]


def read_headers(described: Sequence[Mapping[str, str]]) -> Headers:
    """Read headers as the quarantine stores them."""
    return [
        (each["name"], base64.b64decode(each["base64"]) if "base64" in each else _encode(each.get("text")))
        for each in described
    ]


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _write_header(name: str, value: bytes | None) -> dict[str, str]:
    named = {"name": _clean(name)}
    if value is None:
        return named
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    return named | ({"base64": base64.b64encode(value).decode()} if "\0" in text else {"text": text})


def _clean(text: str) -> str:
    """Replace the characters that PostgreSQL refuses, because a record that the quarantine refused would be lost."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def _read_timestamp(record: RejectedRecord) -> int | None:
    try:
        return timestamps.parse_millis(record.timestamp)
    except Rejection:
        return None
