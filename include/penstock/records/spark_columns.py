"""Columns on their way through Spark: from decoded rows to a DataFrame, and from the DataFrame of a transform to rows.

Spark has no uuid, no json and no time that it could compute with: these are texts in a DataFrame. Python and the JVM
exchange a decimal of up to 18 digits as a whole number, because the JVM makes three objects of a decimal in Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.records.columns.conversions import arrow_type, make_conversion
from penstock.records.columns.index_limits import make_index_limits
from penstock.records.columns.timestamps import DAY, FIRST
from penstock.records.decoder import row_schema, row_types
from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from penstock.declaration.columns import ColumnType
    from penstock.records.decoder import Layout

N = TypeVar("N", np.int32, np.int64)
# The digits that fit into a long, for Python as for Spark.
MOST_DIGITS = 18
FIRST_OF = {"timestamp": FIRST, "timestamptz": FIRST, "date": FIRST // DAY}
_TEXTS = ("text", "varchar", "char")
_WRITTEN_AS_TEXT = ("time", "uuid", "json", "jsonb")


def spark_schema(layout: Layout) -> pa.Schema:
    """The Arrow schema of a DataFrame with the columns of a layout, without `_load_id`: a transform never sees it."""
    types = {name: type_ for name, type_ in row_types(layout).items() if name != "_load_id"}
    return pa.schema([(name, _arrow_of(type_)) for name, type_ in types.items()])


def _arrow_of(type_: ColumnType) -> pa.DataType:
    return pa.string() if type_.family in _WRITTEN_AS_TEXT else arrow_type(type_)


def exchanged_schema(layout: Layout) -> pa.Schema:
    """The schema of the batches that Python and the JVM exchange."""
    return pa.schema(
        [(field.name, pa.int64() if is_short(field.type) else field.type) for field in spark_schema(layout)]
    )


def is_short(type_: pa.DataType) -> bool:
    """Whether a type is a decimal that is exchanged as a whole number."""
    return bool(pa.types.is_decimal(type_) and type_.precision <= MOST_DIGITS)


def make_frame(layout: Layout) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Make the function that turns decoded rows into a batch of a DataFrame."""
    types, schema = row_types(layout), exchanged_schema(layout)
    writers = [
        (name, to_whole if is_short(_arrow_of(types[name])) else _TO_TEXT.get(types[name].family))
        for name in schema.names
    ]

    def convert(rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows[name] if writer is None else writer(rows[name]) for name, writer in writers]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    return convert


def to_whole(decimals: pa.Array) -> pa.Array:
    """The unscaled values of short decimals: the lower half of the 16 bytes of each."""
    fresh = pa.concat_arrays([decimals]) if decimals.offset else decimals
    valid, data = fresh.buffers()
    halves = np.frombuffer(data, np.int64, 2 * len(fresh)) if len(fresh) else np.empty(0, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(fresh), [valid, pa.py_buffer(halves[::2].copy())])


def to_decimals(whole: pa.Array, type_: pa.DataType) -> pa.Array:
    """Decimals from their unscaled values. The array starts at its buffers' start."""
    values = view_numbers(whole, np.int64)
    halves = np.stack([values, values >> np.int64(63)], axis=1)  # the upper half repeats the sign
    return pa.Array.from_buffers(type_, len(whole), [whole.buffers()[0], pa.py_buffer(halves)])


_TO_TEXT: dict[str, Callable[[pa.Array], pa.Array]] = {
    "time": lambda array: array.cast(pa.string()),
    "uuid": lambda array: pa.array([None if each is None else str(UUID(bytes=each)) for each in array.to_pylist()]),
    "json": lambda array: array,
    # The first byte is the version of jsonb's wire format. Arrow's binary_slice asks for a negative buffer here.
    "jsonb": lambda array: pc.binary_replace_slice(array, 0, 1, b"").cast(pa.string()),
}


@dataclass(frozen=True, slots=True)
class MadeRows:
    """Rows for COPY, and the rows that the target cannot hold, by their index in the batch of the DataFrame."""

    rows: pa.RecordBatch
    rejections: dict[int, Rejection]


class RowMaker:
    """Makes rows for COPY from the batches of a transformed DataFrame."""

    def __init__(self, layout: Layout, load_id: int) -> None:
        self.load_id = load_id
        self.schema = row_schema(layout)
        self.types = row_types(layout)
        self._required = {field.name for field in layout.fields if field.required}
        self._limits = make_index_limits(layout.indexes, self.types)

    def make(self, batch: pa.RecordBatch) -> MadeRows:
        """Make the rows of a batch. A value that its column cannot hold rejects its row, and raises no error."""
        rejections: dict[int, Rejection] = {}
        columns = {
            name: self._load_ids(len(batch)) if name == "_load_id" else self._convert(name, batch[name], rejections)
            for name in self.types
        }
        for limit in self._limits:
            for index, rejection in limit.find_rejections(columns):
                rejections.setdefault(index, rejection)
        rows = pa.RecordBatch.from_arrays(list(columns.values()), schema=self.schema)
        if rejections:
            rows = rows.filter(pa.array([index not in rejections for index in range(len(rows))]))
        return MadeRows(rows, rejections)

    def _load_ids(self, count: int) -> pa.Array:
        return repeat_number(self.load_id, count, pa.int64())

    def _reject_early(self, name: str, array: pa.Array, rejections: dict[int, Rejection]) -> None:
        """Reject what is before PostgreSQL's first day. Counted from its epoch, it would become another moment."""
        first = FIRST_OF[self.types[name].family]
        is_date = pa.types.is_date32(array.type)
        is_early = view_numbers(array, np.int32) < first if is_date else view_numbers(array, np.int64) < first
        for index in np.flatnonzero(is_early).tolist():
            if array[index].is_valid:  # a null has any number
                detail = f"column {name}: beyond the timestamps of PostgreSQL"
                rejections.setdefault(index, Rejection("out_of_range", detail))

    def _convert(self, name: str, array: pa.Array, rejections: dict[int, Rejection]) -> pa.Array:
        array = pa.concat_arrays([array]) if array.offset else array
        if name in self._required and array.null_count:
            for index in pc.indices_nonzero(pc.is_null(array)).to_pylist():
                rejections.setdefault(
                    index, Rejection("missing_required", f"column {name}: the transform made no value")
                )
        type_ = self.types[name]
        if type_.family not in (*_TEXTS, *_WRITTEN_AS_TEXT):
            wanted = arrow_type(type_)
            converted = to_decimals(array, wanted) if is_short(wanted) else array.cast(wanted)
            if type_.family in FIRST_OF:
                self._reject_early(name, converted, rejections)
            return converted
        converted, found = _convert_texts(type_, array)
        for index, rejection in found.items():
            rejections.setdefault(index, Rejection(rejection.reason, f"column {name}: {rejection.detail}"))
        return converted


def view_numbers(array: pa.Array, kind: type[N]) -> npt.NDArray[N]:
    """View an array as NumPy's, with any number for a null. `to_numpy` would import pandas, which takes 0.4 s."""
    size = np.dtype(kind).itemsize
    data = array.buffers()[1]
    return np.frombuffer(data or b"", kind, len(array), array.offset * size if data else 0)


def repeat_number(number: int, count: int, type_: pa.DataType) -> pa.Array:
    """An array of one number. `pa.array` and `pa.scalar` would import pandas, which takes 0.4 s."""
    return pa.Array.from_buffers(type_, count, [None, pa.py_buffer(np.full(count, number, type_.to_pandas_dtype()))])


def _convert_texts(type_: ColumnType, array: pa.Array) -> tuple[pa.Array, dict[int, Rejection]]:
    conversion = make_conversion(type_)
    if type_.family in _TEXTS:
        try:
            return conversion.convert(array), {}
        except Rejection:
            return conversion.convert_all(array.to_pylist())
    if type_.family == "time":
        return conversion.convert_all(array.to_pylist())
    if type_.family == "uuid":
        return _convert_uuids(array.to_pylist())
    return conversion.convert_all([None if text is None else text.encode() for text in array.to_pylist()])


def _convert_uuids(texts: Sequence[str | None]) -> tuple[pa.Array, dict[int, Rejection]]:
    values: list[Any] = []
    rejections: dict[int, Rejection] = {}
    for index, text in enumerate(texts):
        try:
            values.append(None if text is None else UUID(text).bytes)
        except ValueError:
            values.append(None)
            rejections[index] = Rejection("wrong_type", "not a UUID")
    return pa.array(values, pa.binary(16)), rejections
