"""The chunks that were staged: those that the log still holds, and those that are read again."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.model.ranges import Range, intersect_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.ledger.verification import StagedChunk
    from penstock.model.log import PartitionLog

# So many offsets between two chunks are read too: that takes less time than another pass of Spark. A redrive of single
# records has a chunk for each of them, and a pass for each took 0.4 s.
BRIDGED = 50_000


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


def choose_ranges(chunks: Sequence[StagedChunk], ranges: Sequence[Range]) -> Sequence[StagedChunk]:
    """Choose the chunks that hold some of these offsets; all chunks if there are no ranges."""
    if not ranges:
        return chunks
    return [chunk for chunk in chunks if intersect_ranges([chunk.range], list(ranges))]


def choose_share(chunks: Sequence[StagedChunk], share: float, seed: int) -> list[StagedChunk]:
    """Choose a random share of the chunks, at least one unless the share is 0; their order stays."""
    if not share:
        return []
    wanted = min(len(chunks), max(1, round(len(chunks) * share)))
    chosen = random.Random(seed).sample(range(len(chunks)), wanted)  # noqa: S311 - a sample needs no secret
    return [chunks[place] for place in sorted(chosen)]


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition that are read together, and the places of the chunks that they hold."""

    range: Range
    places: tuple[int, ...]


def find_spans(
    chunks: Sequence[StagedChunk], places: Iterable[int], avoided: Sequence[Range] = (), bridged: int = BRIDGED
) -> list[Span]:
    """Join chunks to spans: chunks that overlap, and chunks with at most `bridged` offsets between them.

    A span skips no avoided offset, unless a chunk holds it.
    """
    joined: list[list[int]] = []
    ranges: list[Range] = []
    for place in sorted(places, key=lambda place: chunks[place].range):
        range_ = chunks[place].range
        if ranges and _is_near(ranges[-1], range_, avoided, bridged):
            until = max(ranges[-1].until_offset, range_.until_offset)
            ranges[-1] = Range(range_.partition, ranges[-1].from_offset, until)
            joined[-1].append(place)
        else:
            ranges.append(range_)
            joined.append([place])
    return [Span(range_, tuple(held)) for range_, held in zip(ranges, joined, strict=True)]


def _is_near(before: Range, range_: Range, avoided: Sequence[Range], bridged: int) -> bool:
    if before.partition != range_.partition or range_.from_offset - before.until_offset > bridged:
        return False
    gap = Range(range_.partition, before.until_offset, max(before.until_offset, range_.from_offset))
    return not intersect_ranges([gap], list(avoided))


def group_passes(spans: Iterable[Span]) -> list[list[Span]]:
    """Group spans to passes: a pass has at most one span of each partition."""
    passes: list[list[Span]] = []
    known: Counter[int] = Counter()
    for span in spans:
        number = known[span.range.partition]
        known[span.range.partition] += 1
        if number == len(passes):
            passes.append([])
        passes[number].append(span)
    return passes
