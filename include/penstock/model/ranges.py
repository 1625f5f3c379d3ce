"""Ranges of offsets: half open, from <= offset < until."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A consumer of more partitions than this waits for too many first fetches at once.
MOST_TOGETHER = 500


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """The offsets of one partition from `from_offset` up to, and without, `until_offset`."""

    partition: int
    from_offset: int
    until_offset: int

    def __post_init__(self) -> None:
        if self.partition < 0 or self.from_offset < 0 or self.until_offset < self.from_offset:
            raise ValueError(f"no range: {self.partition}[{self.from_offset}..{self.until_offset})")

    def __len__(self) -> int:
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        return f"partition {self.partition} offsets [{self.from_offset}, {self.until_offset})"


@dataclass(frozen=True, slots=True)
class Held:
    """A range that a load holds, or is about to hold as a part of a backfill."""

    range: Range
    load: int
    backfill: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a range that one task of the ledger accounts for; `task` numbers the chunks of a load from 0."""

    task: int
    range: Range


def cut_chunks(ranges: list[Range], records_per_chunk: int) -> list[Chunk]:
    """Cut ranges into chunks of at most `records_per_chunk` offsets, partitions taking turns.

    Taking turns lets the tasks that run side by side read from different partitions, and so from different brokers.
    """
    pieces: list[tuple[int, Range]] = []
    for range_ in ranges:
        count = -(-len(range_) // records_per_chunk)
        for turn in range(count):
            # Even pieces: no chunk is a small rest that still pays a chunk's fixed cost.
            start = range_.from_offset + len(range_) * turn // count
            until = range_.from_offset + len(range_) * (turn + 1) // count
            pieces.append((turn, Range(range_.partition, start, until)))
    pieces.sort(key=lambda piece: (piece[0], piece[1]))
    return [Chunk(task, piece) for task, (_, piece) in enumerate(pieces)]


def group_chunks(chunks: Sequence[Chunk], offsets_per_group: int) -> list[list[Chunk]]:
    """Put neighbouring chunks together: at most `offsets_per_group` offsets and MOST_TOGETHER chunks a group.

    A chunk costs a consumer, a connection and a Spark task when it is alone, 0.13 CPU seconds however small it is.
    """
    groups: list[list[Chunk]] = []
    held = 0
    for chunk in chunks:
        if not groups or held + len(chunk.range) > offsets_per_group or len(groups[-1]) == MOST_TOGETHER:
            groups.append([])
            held = 0
        groups[-1].append(chunk)
        held += len(chunk.range)
    return groups


def split_passes(chunks: Iterable[Chunk]) -> list[list[Chunk]]:
    """Split chunks into passes that each hold a partition once: a consumer reads a partition at one place at a time."""
    passes: list[list[Chunk]] = []
    seen: Counter[int] = Counter()
    for chunk in chunks:
        turn = seen[chunk.range.partition]
        seen[chunk.range.partition] += 1
        if turn == len(passes):
            passes.append([])
        passes[turn].append(chunk)
    return passes


def cut_loads(ranges: list[Range], offsets_per_load: int) -> list[tuple[Range, ...]]:
    """Cut ranges into loads of at most `offsets_per_load` offsets; every load takes a like share of each partition."""
    loads = []
    left = sorted(ranges)
    while left:
        taken, left = _take(left, offsets_per_load)
        loads.append(tuple(taken))
    return loads


def _take(ranges: list[Range], offsets: int) -> tuple[list[Range], list[Range]]:
    """Take so many offsets from the starts of ranges; what is left comes back too."""
    taken, left = [], []
    room = offsets
    # The shortest first: what it leaves of its share is for the others.
    for place, range_ in enumerate(sorted(ranges, key=len)):
        share = min(len(range_), -(-room // (len(ranges) - place)))
        middle = range_.from_offset + share
        taken.append(Range(range_.partition, range_.from_offset, middle))
        left.append(Range(range_.partition, middle, range_.until_offset))
        room -= share
    return sorted(filter(len, taken)), sorted(filter(len, left))


def subtract_ranges(ranges: list[Range], gone: list[Range]) -> list[Range]:
    """What is left of ranges without the offsets of others, in order."""
    left = sorted(ranges)
    for hole in gone:
        left = [piece for range_ in left for piece in _cut_out(range_, hole)]
    return left


def intersect_ranges(ranges: list[Range], others: list[Range]) -> list[Range]:
    """The offsets that are in both, in order."""
    return sorted(
        Range(one.partition, max(one.from_offset, other.from_offset), min(one.until_offset, other.until_offset))
        for one in ranges
        for other in others
        if _overlap(one, other)
    )


def _overlap(one: Range, other: Range) -> bool:
    return one.partition == other.partition and max(one.from_offset, other.from_offset) < min(
        one.until_offset, other.until_offset
    )


def _cut_out(range_: Range, hole: Range) -> list[Range]:
    if not _overlap(range_, hole):
        return [range_]
    pieces = [(range_.from_offset, hole.from_offset), (hole.until_offset, range_.until_offset)]
    return [Range(range_.partition, start, until) for start, until in pieces if start < until]
