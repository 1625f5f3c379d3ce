"""From Kafka's records to rows: a batch becomes an Arrow batch in the target's column order, and the rest poison.

Whatever PostgreSQL's COPY would refuse is found here: one such value would cost the whole COPY.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.declaration.carried import carried_columns
from penstock.declaration.columns import ColumnType
from penstock.model.records import Batch
from penstock.records.columns import timestamps
from penstock.records.columns.conversions import make_conversion
from penstock.records.columns.index_limits import make_index_rooms
from penstock.records.formats.json import make_layers
from penstock.records.rejection import Unfit, describe_mistake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.records import Headers, Numbers
    from penstock.records.formats.json import Layer
    from penstock.records.rejection import Reason

# PostgreSQL takes a field of up to 1 GB, and jsonb may need six times its text.
MAX_VALUE = 64 * 1024 * 1024
# A value without any of these holds no number but 0 that a float would hold as 0.
TINY = re.compile(rb"[eE]-[0-9]{3}|0{200}")


@dataclass(frozen=True, slots=True)
class Field:
    """What decoding needs to know of a declared column."""

    name: str
    type: ColumnType
    path: tuple[str, ...]
    required: bool = False
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """What decoding needs to know of a pipeline: light enough for every task."""

    fields: tuple[Field, ...]
    value: Literal["json", "text", "bytes"] = "json"
    key: Literal["text", "bytes"] | None = None
    indexes: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Poison:
    """A record that could not become a row, whole, with the reason."""

    partition: int
    offset: int
    reason: Reason
    detail: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int


@dataclass(frozen=True, slots=True)
class Decoded:
    """A batch, decoded: every record is a row or poison. `batch` holds the records of the rows, with others perhaps."""

    rows: pa.RecordBatch
    poison: list[Poison]
    batch: Batch


@dataclass(frozen=True, slots=True)
class Float:
    """A column of floats, and the layer that reads the text of its numbers."""

    field: Field
    layer: Layer


def arrow_type(type_: ColumnType, unit: str | None = None) -> pa.DataType:
    """The Arrow type that PostgreSQL's binary COPY takes for a column."""
    return make_conversion(type_, unit).arrow


def layout_of(pipeline: Pipeline) -> Layout:
    """The layout of a declared pipeline."""
    fields = tuple(
        Field(column.name, column.type, column.path, column.required, column.unit) for column in pipeline.columns
    )
    return Layout(fields, pipeline.value, pipeline.key, pipeline.indexes)


class Decoder:
    """Decodes the batches of one load."""

    def __init__(self, layout: Layout, load_id: int) -> None:
        self.layout = layout
        self.load_id = load_id
        self.conversions = [make_conversion(field.type, field.unit) for field in layout.fields]
        self.key_conversion = make_conversion(ColumnType("text", "text"))
        self.layers = make_layers(layout.fields, [conversion.field for conversion in self.conversions])
        self.readers = self._choose_readers()
        self.schema = pa.schema(list(self._describe_columns()))
        types = {field.name: field.type for field in layout.fields}
        types |= {column.name: column.type for column in carried_columns(layout.key)}
        self.index_rooms = make_index_rooms(layout.indexes, types)
        self.floats = {
            place: Float(field, make_layers([field], [msgspec.Raw])[0])
            for place, field in enumerate(layout.fields)
            if field.type.family in ("real", "double")
        }

    def _choose_readers(self) -> list[Callable[[Any], Any]]:
        """What a value goes through before it is taken apart; each of them refuses null with a TypeError."""
        match self.layout.value:
            case "json":
                return [layer.decode for layer in self.layers]
            case "text":
                return [bytes.decode]
            case "bytes":
                return [bytes]

    def _describe_columns(self) -> Iterator[tuple[str, pa.DataType]]:
        for field, conversion in zip(self.layout.fields, self.conversions, strict=True):
            yield field.name, conversion.arrow
        for column in carried_columns(self.layout.key):
            yield column.name, make_conversion(column.type).arrow

    def decode(self, batch: Batch) -> Decoded:
        """Decode a batch; no record of it is lost, and none stops it."""
        read, unread = self._read(batch)
        poison = [quarantine_record(batch, index, reason) for index, reason in unread.items()]
        if unread:
            batch = _pick(batch, [index for index in range(len(batch.offsets)) if index not in unread])
        unfit: dict[int, Unfit] = {}
        rows = pa.RecordBatch.from_arrays(self._build(batch, read, unfit), schema=self.schema)
        if unfit:
            poison += [quarantine_record(batch, index, reason) for index, reason in unfit.items()]
            rows = rows.filter(pa.array([index not in unfit for index in range(len(rows))]))
        return Decoded(rows, sorted(poison, key=lambda record: record.offset), batch)

    def _read(self, batch: Batch) -> tuple[list[list[Any]], dict[int, Unfit]]:
        """Read every value at once; if any of them refuses, one by one, so that each tells its own reason."""
        try:
            if max(map(len, batch.values), default=0) <= MAX_VALUE:  # type: ignore[arg-type]
                return [list(map(read, batch.values)) for read in self.readers], {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
            pass
        found: list[list[Any]] = []
        unread: dict[int, Unfit] = {}
        for index, value in enumerate(batch.values):
            try:
                found.append(self._read_one(value))
            except Unfit as reason:
                unread[index] = reason
        return [list(column) for column in zip(*found, strict=True)] or [[] for _ in self.readers], unread

    def _read_one(self, value: bytes | None) -> list[Any]:
        if value is None:
            raise Unfit("null_value", "no value; append takes no tombstones")
        if len(value) > MAX_VALUE:
            raise Unfit("too_large", f"{len(value)} bytes where {MAX_VALUE} fit")
        try:
            return [read(value) for read in self.readers]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise describe_mistake(error, value) from None

    def _build(self, batch: Batch, read: list[list[Any]], unfit: dict[int, Unfit]) -> list[pa.Array]:
        count = len(batch.offsets)
        columns = self._build_declared(read, unfit)
        for column, float_ in self.floats.items():
            _find_vanished(float_, columns[column], batch.values, unfit)
        # In the order of `carried_columns`.
        columns.append(pa.repeat(pa.scalar(self.load_id, pa.int64()), count))
        columns.append(pa.repeat(pa.scalar(batch.partition, pa.int32()), count))
        columns.append(pa.array(batch.offsets))
        columns.append(_convert_timestamps(batch.timestamps, unfit))
        if self.layout.key is not None:
            columns.append(self._convert_keys(batch, unfit))
        named = dict(zip(self.schema.names, columns, strict=True))
        for room in self.index_rooms:
            for index, reason in room.find_unfit(named):
                unfit.setdefault(index, reason)
        return columns

    def _build_declared(self, read: list[list[Any]], unfit: dict[int, Unfit]) -> list[pa.Array]:
        if self.layout.value != "json":
            return [self._convert(0, read[0], unfit)]
        values: dict[int, list[Any]] = {}
        for layer, records in zip(self.layers, read, strict=True):
            values |= layer.columns(records)
        return [self._convert(index, values[index], unfit) for index in range(len(self.conversions))]

    def _convert(self, column: int, values: list[Any], unfit: dict[int, Unfit]) -> pa.Array:
        field = self.layout.fields[column]
        array, found = self.conversions[column].convert_all(values)
        for index, reason in found.items():
            unfit.setdefault(index, Unfit(reason.reason, f"column {field.name}: {reason.detail}"))
        if field.required and array.null_count > len(found):
            for index, known in enumerate(array.is_valid().to_pylist()):
                if not known:
                    unfit.setdefault(index, Unfit("missing_required", f"column {field.name}: null, and it is required"))
        return array

    def _convert_keys(self, batch: Batch, unfit: dict[int, Unfit]) -> pa.Array:
        if self.layout.key == "bytes":
            return pa.array(batch.keys, pa.binary())
        array, found = self.key_conversion.convert_all(_read_keys(batch.keys, unfit))
        for index, reason in found.items():
            unfit.setdefault(index, Unfit(reason.reason, f"the key: {reason.detail}"))
        return array


def _find_vanished(float_: Float, column: pa.Array, values: Sequence[bytes | None], unfit: dict[int, Unfit]) -> None:
    """Find numbers so near to 0 that a float holds them as 0; msgspec gives no sign of it."""
    for index in np.flatnonzero(pc.fill_null(pc.equal(column, 0), fill_value=False)):
        value = values[int(index)] or b""
        if not TINY.search(value):
            continue
        [[text]] = float_.layer.columns([float_.layer.decode(value)]).values()
        if re.search(rb"[1-9]", re.split(rb"[eE]", bytes(text))[0]):
            field = float_.field
            reason = Unfit("out_of_range", f"column {field.name}: a number that {field.type.sql} cannot hold")
            unfit.setdefault(int(index), reason)


def _read_keys(keys: Sequence[bytes | None], unfit: dict[int, Unfit]) -> list[str | None]:
    texts: list[str | None] = []
    for index, key in enumerate(keys):
        try:
            texts.append(None if key is None else key.decode())
        except UnicodeDecodeError:
            texts.append(None)
            unfit.setdefault(index, Unfit("bad_utf8", "the key: bytes that are no UTF-8"))
    return texts


def _convert_timestamps(millis: Numbers, unfit: dict[int, Unfit]) -> pa.Array:
    try:
        return timestamps.convert_millis(millis)
    except (pa.ArrowInvalid, Unfit):
        pass
    parsed: list[int | None] = []
    for index, moment in enumerate(millis.tolist()):
        try:
            parsed.append(timestamps.parse_millis(moment))
        except Unfit as reason:
            parsed.append(None)
            unfit.setdefault(index, Unfit("bad_timestamp", f"the record's timestamp: {reason.detail}"))
    return pa.array(parsed, timestamps.KINDS["timestamptz"].arrow)


def _pick(batch: Batch, kept: list[int]) -> Batch:
    return Batch(
        partition=batch.partition,
        offsets=batch.offsets[kept],
        timestamps=batch.timestamps[kept],
        values=[batch.values[index] for index in kept],
        keys=[batch.keys[index] for index in kept],
        headers=lambda index: batch.headers(kept[index]),
    )


def quarantine_record(batch: Batch, index: int, reason: Unfit) -> Poison:
    """A record of a batch as the quarantine keeps it."""
    return Poison(
        partition=batch.partition,
        offset=int(batch.offsets[index]),
        reason=reason.reason,
        detail=reason.detail,
        key=batch.keys[index],
        value=batch.values[index],
        headers=batch.headers(index),
        timestamp=int(batch.timestamps[index]),
    )
