"""The chunks that were staged: which of them the log still holds, and which are read again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.ledger.verification import StagedChunk
    from penstock.model.log import Isolation, PartitionLog


@dataclass(frozen=True, slots=True)
class Staged:
    """A chunk as it was read when it was loaded. `log_hash` is None if no fingerprint was taken then."""

    load: int
    attempt: int
    task: int
    range: Range
    records: int
    log_hash: int | None
    reader: str
    isolation: Isolation


def make_staged(row: StagedChunk) -> Staged:
    """Make a chunk from its row in the ledger."""
    range_ = Range(row.partition, row.from_offset, row.until_offset)
    numbers = (row.load_id, row.attempt, row.task)
    return Staged(*numbers, range_, row.records, row.log_hash, row.reader, row.isolation)


def find_held(chunks: Sequence[Staged], partitions: Mapping[int, PartitionLog]) -> list[Staged]:
    """The chunks with a fingerprint that the log still holds whole."""
    return [chunk for chunk in chunks if chunk.log_hash is not None and _is_held(chunk.range, partitions)]


def _is_held(range_: Range, partitions: Mapping[int, PartitionLog]) -> bool:
    log = partitions.get(range_.partition)
    return log is not None and log.start <= range_.from_offset and range_.until_offset <= log.end


def find_cut(chunks: Sequence[Staged], partitions: Mapping[int, PartitionLog]) -> list[Range]:
    """What was loaded from behind the end that the log has now, by partition."""
    reached: dict[int, int] = {}
    for chunk in chunks:
        partition = chunk.range.partition
        reached[partition] = max(reached.get(partition, 0), chunk.range.until_offset)
    ends = {partition: log.end for partition, log in partitions.items()}
    return [
        Range(partition, ends.get(partition, 0), until)
        for partition, until in sorted(reached.items())
        if ends.get(partition, 0) < until
    ]


def choose_share(chunks: Sequence[Staged], share: float, seed: int) -> list[Staged]:
    """Choose a share of the chunks by chance, at least one if any is asked for; in their order."""
    if not share:
        return []
    wanted = min(len(chunks), max(1, round(len(chunks) * share)))
    chosen = random.Random(seed).sample(range(len(chunks)), wanted)  # noqa: S311 - a sample, and no secret
    return [chunks[place] for place in sorted(chosen)]


def group_passes(chunks: Sequence[Staged]) -> list[list[int]]:
    """Group chunks, by their places, so that in a group those of a partition follow each other: no gap, no overlap."""
    passes: list[list[int]] = []
    ends: list[dict[int, int]] = []
    for place in sorted(range(len(chunks)), key=lambda place: chunks[place].range):
        range_ = chunks[place].range
        start = range_.from_offset
        fitting = (number for number, end in enumerate(ends) if end.get(range_.partition, start) == start)
        number = next(fitting, len(passes))
        if number == len(passes):
            passes.append([])
            ends.append({})
        passes[number].append(place)
        ends[number][range_.partition] = range_.until_offset
    return passes


def span_of(ranges: Sequence[Range]) -> list[Range]:
    """What the ranges of one group cover: one range for each partition."""
    spans: dict[int, Range] = {}
    for range_ in sorted(ranges):
        before = spans.get(range_.partition, range_)
        spans[range_.partition] = Range(range_.partition, before.from_offset, range_.until_offset)
    return list(spans.values())
