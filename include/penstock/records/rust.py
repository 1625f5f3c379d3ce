"""The record path in Rust: batches of records become the bytes of PostgreSQL's binary COPY.

The package `penstock_native` (the folder `native/`) is built where Rust is installed. It takes the records that it
reads for certain. The decoder in Python is the reference: it decides about all other records, one batch of them at a
time, and its rows are written in the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.records import Batch
from penstock.records.decoder import Decoded, Decoder, row_types
from penstock.rust_package import find_package

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from penstock.declaration.columns import ColumnType
    from penstock.declaration.formats import ValueFormat
    from penstock.records.decoder import Layout
    from penstock.records.formats.base import Field
    from penstock.records.rejection import RejectedRecord


@dataclass(frozen=True, slots=True)
class Encoded:
    """An encoded batch: every record of the batch is among `count` rows, or a rejected record."""

    pieces: Sequence[bytes]
    count: int
    rejected: list[RejectedRecord]
    log_hash: int


def can_encode(value: ValueFormat) -> bool:
    """Whether the record path in Rust knows a format of values. A format of whole values has little to decode."""
    return value == "json"


def make_encoder(layout: Layout, load_id: int) -> RustEncoder | None:
    """Make an encoder of records; None if the path in Python is to take them."""
    package = find_package()
    return None if package is None else RustEncoder(package, layout, load_id)


class RustEncoder:
    """Encodes the batches of one load."""

    def __init__(self, package: ModuleType, layout: Layout, load_id: int) -> None:
        self.reference = Decoder(layout, load_id)
        self.types = row_types(layout)
        self._package = package
        self._encoder = package.Encoder(
            load_id,
            [_describe(field) for field in layout.fields],
            layout.key,
            layout.tombstones is not None,
            [(limit.limit, list(map(list(self.types).index, limit.wide))) for limit in self.reference.index_limits],
        )

    def encode(self, batch: Batch) -> Encoded:
        """Encode a batch. Every record becomes a row or a rejected record, and no record raises an error."""
        rows, uncertain, log_hash = self.encode_certain(batch)
        if not uncertain:
            return Encoded([rows], len(batch.offsets), [], log_hash)
        decoded = self.reference.decode(_select(batch, uncertain))
        pieces = [rows, encode_rows(self._package, decoded.rows, self.types)]
        return Encoded(pieces, len(batch.offsets) - len(decoded.rejected), decoded.rejected, log_hash)

    def encode_certain(self, batch: Batch) -> tuple[bytes, list[int], int]:
        """Encode the records that Rust takes: their rows, the places of all others, and the sum of all hashes."""
        if batch.run is not None:
            encoded: tuple[bytes, list[int], int] = self._encoder.encode_run(batch.run)
            return encoded
        offsets, timestamps = batch.offsets.tolist(), batch.timestamps.tolist()
        encoded = self._encoder.encode(list(batch.values), list(batch.keys), batch.partition, offsets, timestamps)
        return encoded  # noqa: RET504 - it has a type


class RustDecoder:
    """Decodes the batches of one load for a transform: into Arrow's columns, by way of the bytes of COPY."""

    def __init__(self, package: ModuleType, layout: Layout, load_id: int) -> None:
        self._package = package
        self._encoder = RustEncoder(package, layout, load_id)
        self._schema = self._encoder.reference.schema

    def decode(self, batch: Batch) -> tuple[Decoded, int]:
        """Decode a batch; the sum of the hashes of its records comes with it."""
        encoded, uncertain, log_hash = self._encoder.encode_certain(batch)
        rows = read_rows(self._package, encoded, len(batch.offsets) - len(uncertain), self._encoder.types, self._schema)
        if not uncertain:
            return Decoded(rows, [], batch), log_hash
        decoded = self._encoder.reference.decode(_select(batch, uncertain))
        both = pa.concat_batches([rows, decoded.rows])
        in_order = both.take(pc.array_sort_indices(both["_offset"]))
        return Decoded(in_order, decoded.rejected, batch), log_hash


def make_decoder(layout: Layout, load_id: int) -> RustDecoder | None:
    """Make a decoder of records for a transform; None if the path in Python is to take them."""
    package = find_package()
    return None if package is None else RustDecoder(package, layout, load_id)


def _describe(field: Field) -> tuple[Any, ...]:
    """Describe a column as the encoder takes it: path, family, precision or length, scale, unit, required."""
    type_ = field.type
    first = type_.precision or type_.length or 0
    return list(field.path), type_.family, first, type_.scale or 0, field.unit, field.required


def _select(batch: Batch, places: Sequence[int]) -> Batch:
    return Batch(
        partition=batch.partition,
        offsets=batch.offsets[places],
        timestamps=batch.timestamps[places],
        values=[batch.values[place] for place in places],
        keys=[batch.keys[place] for place in places],
        headers=lambda index: batch.headers(places[index]),
    )


def encode_rows(package: ModuleType, rows: pa.RecordBatch, types: Mapping[str, ColumnType]) -> bytes:
    """Encode rows of Arrow's columns, which have these types in PostgreSQL."""
    columns = [_list_buffers(rows[name], type_) for name, type_ in types.items()]
    encoded: bytes = package.encode_columns(columns, len(rows))
    return encoded


def read_rows(
    package: ModuleType, rows: bytes, count: int, types: Mapping[str, ColumnType], schema: pa.Schema
) -> pa.RecordBatch:
    """Read rows of COPY, which have these types in PostgreSQL, into Arrow's columns."""
    described = [
        (type_.family, _find_width(field.type), type_.scale or 0)
        for type_, field in zip(types.values(), schema, strict=True)
    ]
    columns = [
        pa.Array.from_buffers(field.type, count, [pa.py_buffer(part) for part in parts if part is not None], nulls)
        for field, (*parts, nulls) in zip(schema, package.decode_columns(rows, count, described), strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _find_width(type_: pa.DataType) -> int:
    """The bytes of each value; 0 where they differ, and for bits."""
    varies = pa.types.is_string(type_) or pa.types.is_binary(type_)
    return 0 if varies or pa.types.is_boolean(type_) else int(type_.bit_width) // 8


def _list_buffers(array: pa.Array, type_: ColumnType) -> tuple[Any, ...]:
    """List the buffers of a column: validity or none, offsets or none, data."""
    array = pa.concat_arrays([array]) if array.offset else array
    validity, *offsets, data = [None if buffer is None else buffer.to_pybytes() for buffer in array.buffers()]
    if data is not None and pa.types.is_decimal(array.type):  # the width of a decimal is found by the length
        data = data[: len(array) * _find_width(array.type)]
    return type_.family, type_.scale or 0, validity, offsets[0] if offsets else None, data or b""
