"""From decoded values to Arrow columns that PostgreSQL's binary COPY takes, whatever the values.

Each type of column has a fast way for a whole list of values and an exact way for one. The fast way may refuse a list
for any reason; then every value takes the exact way, and what does not fit is named. Both must agree on what fits: a
record's fate may not depend on its neighbours.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta, Raw

from penstock.records.columns import decimals as numerals
from penstock.records.columns import json_values, timestamps
from penstock.records.rejection import Unfit

if TYPE_CHECKING:
    from penstock.declaration.columns import ColumnType

Values = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Conversion:
    """How the values of one column travel: read by msgspec as `field`, sent by Arrow as `arrow`."""

    field: Any
    arrow: pa.DataType
    convert: Callable[[Values], pa.Array]
    parse: Callable[[Any], Any]

    def convert_all(self, values: Values) -> tuple[pa.Array, dict[int, Unfit]]:
        """Convert a list; what does not fit is null in the array, and named by its index."""
        try:
            return self.convert(values), {}
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError, Unfit):
            return self._convert_each(values)

    def _convert_each(self, values: Values) -> tuple[pa.Array, dict[int, Unfit]]:
        parsed: list[Any] = []
        unfit: dict[int, Unfit] = {}
        for index, value in enumerate(values):
            try:
                parsed.append(None if value is None else self.parse(value))
            except Unfit as reason:
                parsed.append(None)
                unfit[index] = reason
        return pa.array(parsed, self.arrow), unfit


def make_conversion(type_: ColumnType, unit: str | None = None) -> Conversion:  # noqa: C901, PLR0911 - a table
    """Choose the conversion of a column's type."""
    match type_.family:
        case "smallint" | "integer" | "bigint":
            return _integers({"smallint": 16, "integer": 32, "bigint": 64}[type_.family])
        case "real":
            return Conversion(float, pa.float32(), _convert_reals, _parse_real)
        case "double":
            return _plain(float, pa.float64())
        case "boolean":
            return _plain(bool, pa.bool_())
        case "bytea":
            return _plain(bytes, pa.binary())
        case "numeric":
            return _numerics(type_)
        case "text" | "varchar" | "char":
            return _texts(type_.length)
        case "uuid":
            return Conversion(UUID, pa.binary(16), _uuids, lambda value: value.bytes)
        case "json" | "jsonb":
            return _jsons(binary=type_.family == "jsonb")
        case "date" | "time" | "timestamp" | "timestamptz":
            return _times(type_.family, unit)
    raise ValueError(f"no conversion for {type_.sql}")


def _plain(field: Any, arrow: pa.DataType) -> Conversion:  # noqa: ANN401 - a type as msgspec takes it
    return Conversion(field, arrow, lambda values: pa.array(values, arrow), lambda value: value)


def _integers(bits: int) -> Conversion:
    top = 2 ** (bits - 1)
    field = Annotated[int, Meta(ge=-top, le=top - 1)]
    return _plain(field, {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits])


def _convert_reals(values: Values) -> pa.Array:
    wide = pa.array(values, pa.float64())
    narrow = wide.cast(pa.float32(), safe=False)
    if pc.any(pc.is_inf(narrow)).as_py() or pc.any(pc.not_equal(pc.equal(narrow, 0), pc.equal(wide, 0))).as_py():
        raise Unfit("out_of_range", "a number that real cannot hold")
    return narrow


def _parse_real(value: float) -> float:
    try:
        (narrow,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        narrow = 0.0
    if (narrow == 0) != (value == 0):
        raise Unfit("out_of_range", "a number that real cannot hold")
    return float(narrow)


def _numerics(type_: ColumnType) -> Conversion:
    precision, scale = type_.precision or 0, type_.scale or 0
    arrow = pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    return Conversion(
        Raw,
        arrow,
        lambda values: numerals.convert(values, arrow),
        lambda value: numerals.parse(value, precision, scale),
    )


def _texts(length: int | None) -> Conversion:
    def convert(values: Values) -> pa.Array:
        texts = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
        if holds_nul(texts):
            raise Unfit("nul_byte", "")
        if length is not None and (pc.max(pc.utf8_length(texts)).as_py() or 0) > length:
            raise Unfit("too_long", "")
        return texts

    def parse(value: str) -> str:
        if "\0" in value:
            raise Unfit("nul_byte", "a NUL character, which PostgreSQL's text cannot hold")
        if length is not None and len(value) > length:
            raise Unfit("too_long", f"{len(value)} characters where {length} fit")
        return value

    return Conversion(str, pa.string(), convert, parse)


def holds_nul(texts: pa.Array) -> bool:
    """Whether any text of a fresh array holds a NUL character."""
    data = texts.buffers()[2]
    return data is not None and b"\0" in data.to_pybytes()[: _end_of(texts)]


def _end_of(texts: pa.Array) -> int:
    """Where the bytes of a fresh array end: what its buffer has beyond is padding."""
    (end,) = struct.unpack_from("<i", texts.buffers()[1], 4 * (texts.offset + len(texts)))
    return int(end)


def _uuids(values: Values) -> pa.Array:
    return pa.array([None if value is None else value.bytes for value in values], pa.binary(16))


def _jsons(*, binary: bool) -> Conversion:
    arrow = pa.binary() if binary else pa.string()
    # The first byte is the version of jsonb's wire format.
    wrap: Callable[[bytes], Any] = (lambda text: b"\x01" + text) if binary else bytes.decode

    def convert(values: Values) -> pa.Array:
        texts = [None if (text := bytes(value)) == b"null" else text for value in values]
        json_values.check_together(texts)
        return pa.array([None if text is None else wrap(text) for text in texts], arrow)

    def parse(value: Raw) -> Any:  # noqa: ANN401 - bytes or str
        text = bytes(value)
        if text == b"null":
            return None
        json_values.check_one(text)
        return wrap(text)

    return Conversion(Raw, arrow, convert, parse)


def _times(family: str, unit: str | None) -> Conversion:
    if unit is not None:
        arrow = pa.timestamp("us", "UTC") if family == "timestamptz" else pa.timestamp("us")
        return Conversion(
            Raw,
            arrow,
            lambda values: timestamps.convert_epochs(values, unit, arrow),
            lambda value: timestamps.parse_epoch(value, unit),
        )
    kind = timestamps.KINDS[family]
    return Conversion(str, kind.arrow, kind.convert, kind.parse)
