"""The account of offsets through a transform: which were decoded, which came out as rows, and which were filtered.

A row of the transform is known by its lineage only. A hash of it is taken when the record is decoded, and again when
the row is written: a changed timestamp or key changes the sum of a chunk.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock import advice
from penstock.errors import TransformError
from penstock.model.ranges import Range
from penstock.records.fingerprint import hash_values
from penstock.records.spark_columns import view_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.model.ranges import Chunk
    from penstock.records.rejection import Rejection

    Places = npt.NDArray[np.bool_]
    Offsets = npt.NDArray[np.int64]

# The offsets of one row of penstock.filtered: its places take 512 bytes, which PostgreSQL neither compresses nor moves.
PIECE = 4_096
_PLACE, _TIME, _KEY, _MIX = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xFF51AFD7ED558CCD)
)
_NO_TIME = np.uint64(0x27D4EB2F165667C5)


def hash_lineage(rows: pa.RecordBatch) -> npt.NDArray[np.uint32]:
    """Hash the lineage of rows: 32 bits over partition, offset, timestamp and key of each."""
    offsets = view_numbers(rows["_offset"], np.int64).astype(np.uint64)
    partitions = view_numbers(rows["_partition"], np.int32).astype(np.uint64)
    stamps = rows["_timestamp"]
    times = view_numbers(stamps.cast(pa.int64()), np.int64).astype(np.uint64)
    if stamps.null_count:
        times = np.where(stamps.is_null().to_numpy(zero_copy_only=False), _NO_TIME, times)
    hashed = (offsets * np.uint64(2) + np.uint64(1)) * _PLACE + times * _TIME + partitions * _MIX
    if "_key" in rows.schema.names:
        hashed += hash_values(rows["_key"].cast(pa.binary()).to_pylist()) * _KEY
    hashed ^= hashed >> np.uint64(29)
    hashed *= _MIX
    short: npt.NDArray[np.uint32] = (hashed >> np.uint64(32)).astype(np.uint32)
    return short


@dataclass(slots=True)
class DecodedPlaces:
    """The decoded offsets of one chunk, and the hash of the lineage of each."""

    offsets: list[Offsets] = field(default_factory=list)
    hashes: list[npt.NDArray[np.uint32]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many records were decoded."""
        return sum(map(len, self.offsets))

    def add(self, rows: pa.RecordBatch) -> None:
        """Add decoded rows."""
        self.offsets.append(view_numbers(rows["_offset"], np.int64).copy())
        self.hashes.append(hash_lineage(rows))

    def write_places(self, range_: Range) -> bytes:
        """The places as the ledger keeps them: a bit for each offset of the chunk."""
        return pack_places(mark_places(np.concatenate([*self.offsets, np.empty(0, np.int64)]), range_))

    def write_hashes(self) -> bytes:
        """The hashes in the order of the offsets, four bytes each."""
        return np.concatenate([*self.hashes, np.empty(0, np.uint32)]).astype("<u4").tobytes()


@dataclass(slots=True)
class WrittenPlaces:
    """The rows of one chunk that a task of the transform wrote, and those that the target refused."""

    offsets: list[Offsets] = field(default_factory=list)
    hash: int = 0
    refused: dict[int, tuple[str, str]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows were written."""
        return sum(map(len, self.offsets)) - len(self.refused)


class WrittenRows:
    """The rows of a task of the transform by chunk."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        ordered = sorted(chunks, key=lambda chunk: chunk.range)
        self._chunks: dict[int, list[Chunk]] = defaultdict(list)
        for chunk in ordered:
            self._chunks[chunk.range.partition].append(chunk)
        self._starts = {
            partition: np.array([chunk.range.from_offset for chunk in held], np.int64)
            for partition, held in self._chunks.items()
        }
        self.of_task: dict[int, WrittenPlaces] = defaultdict(WrittenPlaces)
        self.accepted = self.refused = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch; a TransformError names an offset that is in no chunk of the load."""
        if batch["_partition"].null_count or batch["_offset"].null_count:
            raise TransformError(
                "the transform made a row without `_partition` or `_offset`.", next_step=advice.KEEP_LINEAGE
            )
        partitions, offsets = view_numbers(batch["_partition"], np.int32), view_numbers(batch["_offset"], np.int64)
        hashes = hash_lineage(batch).astype(np.int64)
        for partition in np.unique(partitions).tolist():
            of_partition = partitions == partition
            self._add(partition, offsets[of_partition], hashes[of_partition])

    def _add(self, partition: int, offsets: Offsets, hashes: Offsets) -> None:
        held = self._chunks.get(partition, [])
        found = (
            np.searchsorted(self._starts[partition], offsets, side="right") - 1 if held else np.full(len(offsets), -1)
        )
        ends = np.array([chunk.range.until_offset for chunk in held], np.int64)
        outside = (found < 0) | (offsets >= ends[found] if held else True)
        if outside.any():
            offset = int(offsets[np.argmax(outside)])
            raise TransformError(
                f"the transform made a row of partition {partition} offset {offset}, which the load does not read.",
                next_step=advice.KEEP_LINEAGE,
            )
        for place in np.unique(found).tolist():
            mine = found == place
            written = self.of_task[held[place].task]
            written.offsets.append(offsets[mine].copy())
            written.hash += int(hashes[mine].sum())

    def refuse(self, partition: int, offset: int, rejection: Rejection) -> None:
        """Note a row that the target refused; `add` has added it."""
        held = self._chunks[partition]
        place = int(np.searchsorted(self._starts[partition], offset, side="right")) - 1
        self.of_task[held[place].task].refused[offset] = (rejection.reason, rejection.detail)
        self.refused += 1


def mark_places(offsets: Offsets, range_: Range) -> Places:
    """Mark the places of offsets in a range; a TransformError names an offset that is there twice."""
    counts = np.bincount(offsets - range_.from_offset, minlength=len(range_))
    if len(offsets) and int(counts.max()) > 1:
        raise multiplied(range_.partition, range_.from_offset + int(np.argmax(counts > 1)))
    return counts.astype(bool)


def multiplied(partition: int, offset: int) -> TransformError:
    """The error for two rows of one record."""
    return TransformError(
        f"the transform made more than one row of the record at partition {partition} offset {offset}; a record "
        "becomes one row or none.",
        ranges=[Range(partition, offset, offset + 1)],
        next_step=advice.KEEP_LINEAGE,
    )


def pack_places(places: Places) -> bytes:
    """Write places as bits, in the order of PostgreSQL's get_bit()."""
    return np.packbits(places, bitorder="little").tobytes()


def unpack_places(packed: bytes, range_: Range) -> Places:
    """Read places from bits."""
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=len(range_), bitorder="little")
    return bits.astype(bool)


@dataclass(frozen=True, slots=True)
class ChunkAccount:
    """The offsets of one chunk after the transform."""

    task: int
    rows: int
    refused: int
    filtered: int
    pieces: tuple[tuple[int, bytes], ...]


def balance(task: int, range_: Range, decoded: bytes, hashes: bytes, written: Sequence[dict[str, Any]]) -> ChunkAccount:
    """Compare the decoded offsets of a chunk with the rows of the transform; a TransformError says what differs."""
    known = unpack_places(decoded, range_)
    out = np.zeros(len(range_), bool)
    for each in written:
        places = unpack_places(bytes.fromhex(each["places"]), range_)
        both = out & places
        if both.any():
            raise multiplied(range_.partition, range_.from_offset + int(np.argmax(both)))
        out |= places
    strange = out & ~known
    if strange.any():
        offset = range_.from_offset + int(np.argmax(strange))
        raise TransformError(
            f"the transform made a row of partition {range_.partition} offset {offset}, which it was not given.",
            ranges=[Range(range_.partition, offset, offset + 1)],
            next_step=advice.KEEP_LINEAGE,
        )
    expected = int(np.frombuffer(hashes, "<u4").astype(np.int64)[out[known]].sum())
    if expected != sum(each["hash"] for each in written):
        raise TransformError(
            "the transform changed `_timestamp` or `_key` of a row, or exchanged the offsets of rows.",
            ranges=[range_],
            next_step=advice.KEEP_LINEAGE,
        )
    refused = sum(len(each["refused"]) for each in written)
    filtered = known & ~out
    rows = int(out.sum()) - refused
    return ChunkAccount(task, rows, refused, int(filtered.sum()), tuple(_cut(filtered, range_)))


def _cut(filtered: Places, range_: Range) -> Iterator[tuple[int, bytes]]:
    for start in range(0, len(filtered), PIECE):
        piece = filtered[start : start + PIECE]
        if piece.any():
            yield range_.from_offset + start, pack_places(piece)
