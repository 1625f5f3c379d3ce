"""The chunks that were staged: those that the log still holds, and those that are read again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.ledger.verification import StagedChunk
    from penstock.model.log import PartitionLog


def find_chunks_in_log(chunks: Sequence[StagedChunk], partitions: Mapping[int, PartitionLog]) -> list[StagedChunk]:
    """Find the chunks with a fingerprint that the log still holds completely."""
    return [chunk for chunk in chunks if chunk.log_hash is not None and _is_in_log(chunk.range, partitions)]


def _is_in_log(range_: Range, partitions: Mapping[int, PartitionLog]) -> bool:
    log = partitions.get(range_.partition)
    return log is not None and log.start <= range_.from_offset and range_.until_offset <= log.end


def find_truncated(chunks: Sequence[StagedChunk], partitions: Mapping[int, PartitionLog]) -> list[Range]:
    """Find the loaded offsets beyond the log's end, by partition: the log was truncated."""
    loaded: dict[int, int] = {}
    for chunk in chunks:
        loaded[chunk.partition] = max(loaded.get(chunk.partition, 0), chunk.until_offset)
    ends = {partition: log.end for partition, log in partitions.items()}
    return [
        Range(partition, ends.get(partition, 0), until)
        for partition, until in sorted(loaded.items())
        if ends.get(partition, 0) < until
    ]


def choose_share(chunks: Sequence[StagedChunk], share: float, seed: int) -> list[StagedChunk]:
    """Choose a random share of the chunks, at least one unless the share is 0; their order stays."""
    if not share:
        return []
    wanted = min(len(chunks), max(1, round(len(chunks) * share)))
    chosen = random.Random(seed).sample(range(len(chunks)), wanted)  # noqa: S311 - a sample needs no secret
    return [chunks[place] for place in sorted(chosen)]


def group_passes(chunks: Sequence[StagedChunk]) -> list[list[int]]:
    """Group chunks, by their places: within a group, the chunks of a partition have no gap and no overlap."""
    passes: list[list[int]] = []
    ends: list[dict[int, int]] = []
    for place in sorted(range(len(chunks)), key=lambda place: chunks[place].range):
        range_ = chunks[place].range
        start = range_.from_offset
        possible = (number for number, end in enumerate(ends) if end.get(range_.partition, start) == start)
        number = next(possible, len(passes))
        if number == len(passes):
            passes.append([])
            ends.append({})
        passes[number].append(place)
        ends[number][range_.partition] = range_.until_offset
    return passes


def join_ranges(ranges: Sequence[Range]) -> list[Range]:
    """Join the ranges of one group to one range for each partition."""
    joined: dict[int, Range] = {}
    for range_ in sorted(ranges):
        first = joined.get(range_.partition, range_)
        joined[range_.partition] = Range(range_.partition, first.from_offset, range_.until_offset)
    return list(joined.values())
