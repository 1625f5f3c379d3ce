"""From Kafka's records to rows: a batch becomes an Arrow batch in the target's column order, and rejected records.

The decoder finds every value that PostgreSQL's COPY would refuse, because one such value would fail the whole COPY.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.declaration.carried import carried_columns
from penstock.declaration.formats import WHOLE_VALUE_TYPES
from penstock.declaration.tombstones import find_key_columns
from penstock.records.columns import timestamps
from penstock.records.columns.conversions import arrow_type, make_conversion
from penstock.records.columns.index_limits import make_index_limits
from penstock.records.formats.base import Field
from penstock.records.formats.registry import make_format
from penstock.records.formats.text import NOT_UTF8, decode_texts
from penstock.records.rejection import RejectedRecord, Rejection, reject_record
from penstock.records.tombstones import TombstoneReader, Tombstones

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.declaration.columns import ColumnType
    from penstock.declaration.formats import KeyFormat, ValueFormat
    from penstock.declaration.pipeline import Column, Pipeline
    from penstock.model.records import Batch, Numbers
    from penstock.records.formats.base import Rejections

# PostgreSQL takes a field of up to 1 GB, and jsonb may need six times the size of its text.
MAX_VALUE = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """The part of a declaration that decoding needs; it is sent with every task."""

    fields: tuple[Field, ...]
    value: ValueFormat = "json"
    key: KeyFormat | None = None
    indexes: tuple[tuple[str, ...], ...] = ()
    tombstones: Tombstones | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded batch: every record of `batch` is a row or a rejected record."""

    rows: pa.RecordBatch
    rejected: list[RejectedRecord]
    batch: Batch

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.rows)


def layout_of(pipeline: Pipeline) -> Layout:
    """Make the layout of the columns that a pipeline decodes. Its indexes are on the rows of the target."""
    indexes = pipeline.index_entries if pipeline.transform is None else ()
    fields = _make_fields(pipeline.decoded)
    return Layout(fields, pipeline.value, pipeline.key, indexes, _tombstones_of(pipeline, fields))


def target_layout_of(pipeline: Pipeline) -> Layout:
    """Make the layout of the rows of a pipeline's target."""
    return Layout(_make_fields(pipeline.columns), pipeline.value, pipeline.key, pipeline.index_entries)


def _make_fields(columns: Sequence[Column]) -> tuple[Field, ...]:
    return tuple(Field(column.name, column.type, column.path, column.required, column.unit) for column in columns)


def row_types(layout: Layout) -> dict[str, ColumnType]:
    """The types of the columns of a row: those of the layout, and those that every row carries."""
    types = {field.name: field.type for field in layout.fields}
    carried = carried_columns(layout.key, "keep" if layout.tombstones else "poison")
    return types | {column.name: column.type for column in carried}


def row_schema(layout: Layout) -> pa.Schema:
    """The Arrow schema of rows for COPY."""
    return pa.schema([(name, arrow_type(type_)) for name, type_ in row_types(layout).items()])


def _tombstones_of(pipeline: Pipeline, fields: Sequence[Field]) -> Tombstones | None:
    if pipeline.tombstones != "keep":
        return None
    paths = find_key_columns(pipeline)
    keys = tuple(replace(field, path=paths[field.name], required=True) for field in fields if field.name in paths)
    return Tombstones(keys, is_json=pipeline.key_columns is not None)


class Decoder:
    """Decodes the batches of one load."""

    def __init__(self, layout: Layout, load_id: int) -> None:
        self.layout = layout
        self.load_id = load_id
        self.format = make_format(layout.value, layout.fields)
        self.key_type = None if layout.key is None else WHOLE_VALUE_TYPES[layout.key]
        self.tombstones = TombstoneReader(layout.tombstones, layout.fields) if layout.tombstones else None
        self.schema = row_schema(layout)
        self.index_limits = make_index_limits(layout.indexes, row_types(layout))

    def decode(self, batch: Batch) -> Decoded:
        """Decode a batch. Every record becomes a row or a rejected record, and no record raises an error."""
        rejections: Rejections = {}
        values = _reject_values(batch.values, rejections, takes_none=self.tombstones is not None)
        columns = [*self._read_columns(batch, values, rejections), *self._make_carried_columns(batch, rejections)]
        named = dict(zip(self.schema.names, columns, strict=True))
        for limit in self.index_limits:
            for index, rejection in limit.find_rejections(named):
                rejections.setdefault(index, rejection)
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if rejections:
            rows = rows.filter(pa.array([index not in rejections for index in range(len(rows))]))
        return Decoded(rows, [reject_record(batch, index, rejections[index]) for index in sorted(rejections)], batch)

    def _read_columns(self, batch: Batch, values: Sequence[bytes | None], rejections: Rejections) -> list[pa.Array]:
        if self.tombstones is None or None not in batch.values:
            return self.format.read_columns(values, rejections)
        return self.tombstones.read_columns(self.format, batch, values, rejections)

    def _make_carried_columns(self, batch: Batch, rejections: Rejections) -> Iterator[pa.Array]:
        count = len(batch.offsets)
        yield pa.repeat(pa.scalar(self.load_id, pa.int64()), count)
        yield pa.repeat(pa.scalar(batch.partition, pa.int32()), count)
        yield pa.array(batch.offsets)
        yield _convert_timestamps(batch.timestamps, rejections)
        if self.key_type is not None:
            yield _convert_keys(batch.keys, self.key_type, rejections)
        if self.tombstones is not None:
            yield pa.array([value is None for value in batch.values], pa.bool_())


def _reject_values(
    values: Sequence[bytes | None], rejections: Rejections, *, takes_none: bool
) -> Sequence[bytes | None]:
    """Reject values that are missing or too large for any format; they are None in the list that is returned."""
    try:
        if max(map(len, values), default=0) <= MAX_VALUE:  # type: ignore[arg-type]
            return values
    except TypeError:
        pass
    for index, value in enumerate(values):
        if value is None:
            if not takes_none:
                rejections[index] = Rejection("null_value", "no value, and the pipeline does not keep tombstones")
        elif len(value) > MAX_VALUE:
            rejections[index] = Rejection("too_large", f"{len(value)} bytes; the limit is {MAX_VALUE}")
    return [None if index in rejections else value for index, value in enumerate(values)]


def _convert_keys(keys: Sequence[bytes | None], type_: ColumnType, rejections: Rejections) -> pa.Array:
    texts = keys if type_.family == "bytea" else decode_texts(keys, rejections, f"the key: {NOT_UTF8}")
    array, found = make_conversion(type_).convert_all(texts)
    for index, rejection in found.items():
        rejections.setdefault(index, Rejection(rejection.reason, f"the key: {rejection.detail}"))
    return array


def _convert_timestamps(millis: Numbers, rejections: Rejections) -> pa.Array:
    try:
        return timestamps.convert_millis(millis)
    except (pa.ArrowInvalid, Rejection):
        pass
    parsed: list[int | None] = []
    for index, moment in enumerate(millis.tolist()):
        try:
            parsed.append(timestamps.parse_millis(moment))
        except Rejection as rejection:
            parsed.append(None)
            rejections.setdefault(index, Rejection("bad_timestamp", f"the record's timestamp: {rejection.detail}"))
    return pa.array(parsed, timestamps.ISO_FORMS["timestamptz"].arrow)
