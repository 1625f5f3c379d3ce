"""Reading single records by partition and offset, natively and through the checks of the contract."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from penstock import advice
from penstock.errors import ReadError
from penstock.kafka.readers.native import open_chunks, read_chunks
from penstock.model.ranges import Chunk, Range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.kafka.readers.contract import Source
    from penstock.model.records import Batch

# A seek costs about as much as reading this many records.
GAP = 10_000


def read_places(source: Source, places: Sequence[tuple[int, int]]) -> Iterator[tuple[Batch, int]]:
    """Read the records at some offsets, each as a batch and the record's index in the batch.

    An offset without a visible record is a ReadError: the caller knows that the log had a record there.
    """
    chunks = [Chunk(task, range_) for task, range_ in enumerate(join_places(places))]
    wanted: dict[int, list[int]] = defaultdict(list)
    for partition, offset in places:
        wanted[partition].append(offset)
    offsets = {partition: np.array(sorted(each), np.int64) for partition, each in wanted.items()}
    left = set(places)
    with closing(read_chunks(source, chunks)) as read:
        for _, batch in open_chunks(source, chunks).check(read):
            for index in np.flatnonzero(np.isin(batch.offsets, offsets[batch.partition])):
                left.discard((batch.partition, int(batch.offsets[index])))
                yield batch, int(index)
    if left:
        raise ReadError(
            f"topic {source.topic}: the log no longer has {len(left)} records that were staged.",
            ranges=[Range(partition, offset, offset + 1) for partition, offset in sorted(left)],
            next_step=advice.DISCARD_THEN_RUN,
        )


def join_places(places: Sequence[tuple[int, int]]) -> list[Range]:
    """Join offsets of a partition to one range where few offsets lie between them."""
    ranges: list[Range] = []
    ordered = sorted(places)
    if not ordered:
        return ranges
    start = ordered[0]
    for place, following in [*pairwise(ordered), (ordered[-1], None)]:
        if following is None or following[0] != place[0] or following[1] - place[1] > GAP:
            ranges.append(Range(start[0], start[1], place[1] + 1))
            start = following or start
    return ranges
