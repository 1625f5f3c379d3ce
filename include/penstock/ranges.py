"""Ranges of offsets: half open, from <= offset < until."""

from __future__ import annotations

from dataclasses import dataclass


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
class Chunk:
    """A piece of a range that one Spark task reads; `task` numbers the chunks of a load from 0."""

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
