"""The checks of every reader, with readers that misbehave on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import LogLostError, ReadError
from penstock.kafka.readers.contract import CheckedChunks, End, Source
from penstock.model.ranges import Chunk, Range
from penstock.model.records import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.kafka.readers.contract import CheckedChunk

SOURCE = Source({}, "orders", "read_committed")


def batch(*offsets: int, partition: int = 0) -> Batch:
    count = len(offsets)
    return Batch(
        partition, np.array(offsets, np.int64), np.zeros(count, np.int64), [b""] * count, [None] * count, lambda _: []
    )


def check(parts: Iterable[Batch | End], log_start: int = 0) -> CheckedChunk:
    """Check parts as the chunk [10, 20) of partition 0."""
    checked = CheckedChunks(
        SOURCE, [Chunk(7, Range(0, 10, 20))], lambda partitions: dict.fromkeys(partitions, log_start)
    )
    list(checked.check((7, part) for part in parts))
    return checked.chunks[7]


@given(kept=st.sets(st.integers(10, 19)), cuts=st.sets(st.integers(10, 19)))
def test_records_and_holes_add_up_to_the_chunk(kept: set[int], cuts: set[int]) -> None:
    batches: list[list[int]] = [[]]
    for offset in sorted(kept):
        if offset in cuts:
            batches.append([])
        batches[-1].append(offset)
    checked = check([*(batch(*offsets) for offsets in batches), End(20)])
    assert (checked.records, checked.holes) == (len(kept), 10 - len(kept))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([batch(10, 11)], "ended at offset 12"),
        ([batch(10, 11), End(19)], "ended at offset 19"),
        ([], "ended at offset 10"),
        ([batch(9, 10), End(20)], "not ascending"),
        ([batch(10, 10), End(20)], "not ascending"),
        ([batch(12, 11), End(20)], "not ascending"),
        ([batch(10, 11), batch(11), End(20)], "not ascending"),
        ([batch(19, 20), End(20)], "after the end"),
        ([batch(10, partition=1), End(20)], "partition 1"),
        ([End(20), batch(19)], "continued after its end"),
    ],
)
def test_a_reader_that_does_not_yield_exactly_its_chunk_is_refused(parts: list[Batch | End], message: str) -> None:
    with pytest.raises(ReadError, match=message):
        check(parts)


def test_a_hole_that_the_log_start_has_passed_is_a_loss() -> None:
    with pytest.raises(LogLostError) as caught:
        check([batch(10, 14), End(20)], log_start=12)
    assert caught.value.ranges == (Range(0, 11, 12),)


def test_a_log_start_below_every_hole_is_not_a_loss() -> None:
    assert check([batch(10, 11, 14), End(20)], log_start=12).holes == 7
    assert check([batch(*range(10, 20)), End(20)], log_start=99).holes == 0


def test_each_of_two_chunks_with_mixed_parts_must_be_whole() -> None:
    chunks = [Chunk(0, Range(0, 10, 12)), Chunk(1, Range(1, 5, 8))]
    mixed: list[tuple[int, Batch | End]] = [
        (1, batch(5, partition=1)),
        (0, batch(10)),
        (1, batch(7, partition=1)),
        (1, End(8)),
        (0, batch(11)),
    ]

    def check_both(parts: list[tuple[int, Batch | End]]) -> dict[int, CheckedChunk]:
        checked = CheckedChunks(SOURCE, chunks, lambda partitions: dict.fromkeys(partitions, 0))
        list(checked.check(iter(parts)))
        return checked.chunks

    whole = check_both([*mixed, (0, End(12))])
    assert [(chunk.records, chunk.holes) for chunk in whole.values()] == [(2, 0), (2, 1)]
    with pytest.raises(ReadError, match="ended at offset 12"):
        check_both(mixed)
    with pytest.raises(ReadError, match="partition 1"):
        check_both([(0, batch(10, partition=1))])
