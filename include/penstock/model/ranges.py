"""Ranges of offsets: half open, from <= offset < until."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# A consumer of more partitions would wait for too many first fetches at the same time.
MOST_TOGETHER = 500


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """The offsets of one partition from `from_offset` up to, and without, `until_offset`."""

    partition: int
    from_offset: int
    until_offset: int

    def __post_init__(self) -> None:
        if self.partition < 0 or self.from_offset < 0 or self.until_offset < self.from_offset:
            raise ValueError(f"invalid range: {self.partition}[{self.from_offset}..{self.until_offset})")

    def __len__(self) -> int:
        return self.until_offset - self.from_offset

    def __str__(self) -> str:
        return f"partition {self.partition} offsets [{self.from_offset}, {self.until_offset})"


@dataclass(frozen=True, slots=True)
class LoadRange:
    """A range that a load covers or has planned; `backfill` is the backfill of an open load."""

    range: Range
    load: int
    backfill: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a range that one task stages; `task` numbers the chunks of a load from 0."""

    task: int
    range: Range


def cut_chunks(ranges: list[Range], records_per_chunk: int) -> list[Chunk]:
    """Split ranges into chunks of at most `records_per_chunk` offsets, the partitions in turn.

    Neighbouring chunks are of different partitions, so that concurrent tasks read from different brokers.
    """
    pieces: list[tuple[int, Range]] = []
    for range_ in ranges:
        count = -(-len(range_) // records_per_chunk)
        for turn in range(count):
            # Pieces of equal size: no chunk is a small rest with the fixed cost of a whole chunk.
            start = range_.from_offset + len(range_) * turn // count
            until = range_.from_offset + len(range_) * (turn + 1) // count
            pieces.append((turn, Range(range_.partition, start, until)))
    pieces.sort(key=lambda piece: (piece[0], piece[1]))
    return [Chunk(task, piece) for task, (_, piece) in enumerate(pieces)]


def group_chunks(chunks: Sequence[Chunk], offsets_per_group: int) -> list[list[Chunk]]:
    """Group neighbouring chunks: at most `offsets_per_group` offsets and MOST_TOGETHER chunks a group.

    A chunk alone costs a consumer, a connection and a Spark task: 0.13 CPU seconds, also if it is small.
    """
    groups: list[list[Chunk]] = []
    offsets = 0
    for chunk in chunks:
        if not groups or offsets + len(chunk.range) > offsets_per_group or len(groups[-1]) == MOST_TOGETHER:
            groups.append([])
            offsets = 0
        groups[-1].append(chunk)
        offsets += len(chunk.range)
    return groups


def split_passes(chunks: Iterable[Chunk]) -> list[list[Chunk]]:
    """Split chunks into passes that hold each partition once: a consumer reads a partition at one offset at a time."""
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
    """Split ranges into loads of at most `offsets_per_load` offsets; each takes an equal share of each partition."""
    loads = []
    left = sorted(ranges)
    while left:
        taken, left = _take(left, offsets_per_load)
        loads.append(tuple(taken))
    return loads


def _take(ranges: list[Range], offsets: int) -> tuple[list[Range], list[Range]]:
    """Take a number of offsets from the starts of ranges. Returns the taken ranges and the rest."""
    taken, left = [], []
    room = offsets
    # The shortest range first: the others divide the part of its share that it does not use.
    for place, range_ in enumerate(sorted(ranges, key=len)):
        share = min(len(range_), -(-room // (len(ranges) - place)))
        middle = range_.from_offset + share
        taken.append(Range(range_.partition, range_.from_offset, middle))
        left.append(Range(range_.partition, middle, range_.until_offset))
        room -= share
    return sorted(filter(len, taken)), sorted(filter(len, left))


def subtract_ranges(ranges: list[Range], subtracted: list[Range]) -> list[Range]:
    """The ranges without the offsets of others, in order."""
    left = sorted(ranges)
    for other in subtracted:
        left = [piece for range_ in left for piece in _subtract(range_, other)]
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


def _subtract(range_: Range, other: Range) -> list[Range]:
    if not _overlap(range_, other):
        return [range_]
    pieces = [(range_.from_offset, other.from_offset), (other.until_offset, range_.until_offset)]
    return [Range(range_.partition, start, until) for start, until in pieces if start < until]
