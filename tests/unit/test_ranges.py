"""Chunks tile the ranges they are cut from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ranges import Range, cut_chunks

offsets = st.integers(min_value=0, max_value=2**62)
ranges = st.builds(
    lambda partition, start, length: Range(partition, start, start + length),
    st.integers(0, 500),
    offsets,
    st.integers(1, 10_000),
)


@given(st.lists(ranges, unique_by=lambda range_: range_.partition, max_size=6), st.integers(50, 20_000))
def test_chunks_tile_their_ranges_without_overlap_and_keep_their_size(plan: list[Range], size: int) -> None:
    chunks = cut_chunks(plan, size)

    assert [chunk.task for chunk in chunks] == list(range(len(chunks)))
    assert all(0 < len(chunk.range) <= size for chunk in chunks)
    for whole in plan:
        pieces = sorted(chunk.range for chunk in chunks if chunk.range.partition == whole.partition)
        assert pieces[0].from_offset == whole.from_offset
        assert pieces[-1].until_offset == whole.until_offset
        assert all(a.until_offset == b.from_offset for a, b in zip(pieces, pieces[1:], strict=False))


def test_chunks_take_turns_over_the_partitions() -> None:
    chunks = cut_chunks([Range(0, 0, 200), Range(1, 0, 200)], 100)

    assert [chunk.range.partition for chunk in chunks] == [0, 1, 0, 1]


@pytest.mark.parametrize(("partition", "start", "until"), [(-1, 0, 1), (0, -1, 1), (0, 2, 1)])
def test_a_reversed_or_negative_range_cannot_be_made(partition: int, start: int, until: int) -> None:
    with pytest.raises(ValueError, match="no range"):
        Range(partition, start, until)
