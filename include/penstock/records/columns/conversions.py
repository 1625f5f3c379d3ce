"""From values to Arrow columns that PostgreSQL's binary COPY takes: one row a column type in `CONVERSIONS`.

Each conversion has a fast way for a list of values and an exact way for one value. The fast way may refuse a list for
any reason; then every value takes the exact way, and the values that the column cannot hold are rejected. Both ways
must accept the same values, because the result for a record may not depend on the other records of its batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.records.columns import json_values, numbers, timestamps
from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.declaration.columns import ColumnType, Family

Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion to one column's Arrow type: `convert` is the fast way, `parse` the exact way."""

    arrow: pa.DataType
    convert: Callable[[Values], pa.Array]
    parse: Callable[[Any], Any]

    def convert_all(self, values: Values) -> tuple[pa.Array, dict[int, Rejection]]:
        """Convert a list; a rejected value is null in the array, and its rejection is found by its index."""
        try:
            return self.convert(values), {}
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError, Rejection):
            return self._convert_each(values)

    def _convert_each(self, values: Values) -> tuple[pa.Array, dict[int, Rejection]]:
        parsed: list[Any] = []
        rejections: dict[int, Rejection] = {}
        for index, value in enumerate(values):
            try:
                parsed.append(None if value is None else self.parse(value))
            except Rejection as rejection:
                parsed.append(None)
                rejections[index] = rejection
        return pa.array(parsed, self.arrow), rejections


def make_conversion(type_: ColumnType, unit: str | None = None) -> Conversion:
    """Make the conversion of a column; with a unit, of a timestamp that is written as a number."""
    return CONVERSIONS[type_.family](type_) if unit is None else _epochs(type_, unit)


def arrow_type(type_: ColumnType) -> pa.DataType:
    """Return the Arrow type that PostgreSQL's binary COPY takes for a column."""
    return make_conversion(type_).arrow


def _unchanged(arrow: pa.DataType) -> Conversion:
    return Conversion(arrow, lambda values: pa.array(values, arrow), lambda value: value)


def _numerics(type_: ColumnType) -> Conversion:
    precision, scale = type_.precision or 0, type_.scale or 0
    arrow = pa.decimal128(precision, scale) if precision <= numbers.WIDTH else pa.decimal256(precision, scale)
    return Conversion(
        arrow,
        lambda texts: numbers.convert_decimals(texts, arrow),
        lambda text: numbers.parse_decimal(text, precision, scale),
    )


def _texts(type_: ColumnType) -> Conversion:
    length = type_.length

    def convert(values: Values) -> pa.Array:
        texts = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
        if holds_nul(texts):
            raise Rejection("nul_byte", "")
        if length is not None and (pc.max(pc.utf8_length(texts)).as_py() or 0) > length:
            raise Rejection("too_long", "")
        return texts

    def parse(value: str) -> str:
        if "\0" in value:
            raise Rejection("nul_byte", "a NUL character, which PostgreSQL's text cannot hold")
        if length is not None and len(value) > length:
            raise Rejection("too_long", f"{len(value)} characters where {length} fit")
        return value

    return Conversion(pa.string(), convert, parse)


def holds_nul(texts: pa.Array) -> bool:
    """Check whether any text of a fresh array holds a NUL character."""
    data = texts.buffers()[2]
    return data is not None and b"\0" in data.to_pybytes()[: _end_of(texts)]


def _end_of(texts: pa.Array) -> int:
    """Return where the bytes of a fresh array end; the rest of its buffer is padding."""
    (end,) = struct.unpack_from("<i", texts.buffers()[1], 4 * (texts.offset + len(texts)))
    return int(end)


def _convert_uuids(values: Sequence[UUID | None]) -> pa.Array:
    return pa.array([None if value is None else value.bytes for value in values], pa.binary(16))


def _jsons(wrap: Callable[[bytes], Any], arrow: pa.DataType) -> Conversion:
    def convert(texts: Sequence[bytes | None]) -> pa.Array:
        json_values.check_together(texts)
        return pa.array([None if text is None else wrap(text) for text in texts], arrow)

    def parse(text: bytes) -> Any:  # noqa: ANN401 - bytes or str
        json_values.check_one(text)
        return wrap(text)

    return Conversion(arrow, convert, parse)


def _wrap_jsonb(text: bytes) -> bytes:
    # The first byte is the version of jsonb's wire format.
    return b"\x01" + text


def _iso_texts(type_: ColumnType) -> Conversion:
    form = timestamps.ISO_FORMS[type_.family]
    return Conversion(form.arrow, form.convert, form.parse)


def _epochs(type_: ColumnType, unit: str) -> Conversion:
    arrow = timestamps.ISO_FORMS[type_.family].arrow
    return Conversion(
        arrow,
        lambda texts: timestamps.convert_epochs(texts, unit, arrow),
        lambda text: timestamps.parse_epoch(text, unit),
    )


# The values that a conversion takes: int, float, bool, bytes, UUID or str, as the type suggests; for numeric, json and
# jsonb, and for timestamps with a unit, the text as UTF-8 bytes.
CONVERSIONS: dict[Family, Callable[[ColumnType], Conversion]] = {
    "smallint": lambda _: _unchanged(pa.int16()),
    "integer": lambda _: _unchanged(pa.int32()),
    "bigint": lambda _: _unchanged(pa.int64()),
    "real": lambda _: Conversion(pa.float32(), numbers.convert_reals, numbers.parse_real),
    "double": lambda _: _unchanged(pa.float64()),
    "numeric": _numerics,
    "text": _texts,
    "varchar": _texts,
    "char": _texts,
    "boolean": lambda _: _unchanged(pa.bool_()),
    "bytea": lambda _: _unchanged(pa.binary()),
    "date": _iso_texts,
    "time": _iso_texts,
    "timestamp": _iso_texts,
    "timestamptz": _iso_texts,
    "uuid": lambda _: Conversion(pa.binary(16), _convert_uuids, lambda value: value.bytes),
    "json": lambda _: _jsons(bytes.decode, pa.string()),
    "jsonb": lambda _: _jsons(_wrap_jsonb, pa.binary()),
}
