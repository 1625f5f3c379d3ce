"""Chunks, groups, passes and loads tile their ranges."""

from __future__ import annotations

from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.ranges import (
    MOST_TOGETHER,
    Range,
    cut_chunks,
    cut_loads,
    group_chunks,
    intersect_ranges,
    split_passes,
    subtract_ranges,
)

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


def test_chunks_take_the_partitions_in_turn() -> None:
    chunks = cut_chunks([Range(0, 0, 200), Range(1, 0, 200)], 100)

    assert [chunk.range.partition for chunk in chunks] == [0, 1, 0, 1]


@given(st.lists(ranges, max_size=8), st.integers(50, 20_000), st.integers(1, 50_000))
def test_groups_hold_every_chunk_once_in_order_up_to_their_size(plan: list[Range], size: int, together: int) -> None:
    chunks = cut_chunks(plan, size)
    groups = group_chunks(chunks, together)

    assert [chunk for group in groups for chunk in group] == chunks
    for group, after in zip_longest(groups, groups[1:]):
        held = sum(len(chunk.range) for chunk in group)
        assert len(group) == 1 or held <= together
        full = len(group) == MOST_TOGETHER
        assert after is None or full or held + len(after[0].range) > together


def test_a_group_of_small_chunks_has_a_limited_number_of_them() -> None:
    chunks = cut_chunks([Range(partition, 0, 1) for partition in range(MOST_TOGETHER + 1)], 100)

    assert [len(group) for group in group_chunks(chunks, 10_000)] == [MOST_TOGETHER, 1]


@given(st.lists(ranges, max_size=8), st.integers(50, 20_000))
def test_a_pass_holds_each_partition_once_and_the_passes_hold_all_chunks(plan: list[Range], size: int) -> None:
    chunks = cut_chunks(plan, size)
    passes = split_passes(chunks)

    assert sorted(chunk.task for part in passes for chunk in part) == [chunk.task for chunk in chunks]
    for part in passes:
        assert len({chunk.range.partition for chunk in part}) == len(part)


@pytest.mark.parametrize(("partition", "start", "until"), [(-1, 0, 1), (0, -1, 1), (0, 2, 1)])
def test_a_reversed_or_negative_range_cannot_be_made(partition: int, start: int, until: int) -> None:
    with pytest.raises(ValueError, match="invalid range"):
        Range(partition, start, until)


few = st.lists(st.builds(lambda partition, start, length: Range(partition, start, start + length),
                         st.integers(0, 2), st.integers(0, 40), st.integers(1, 20)), max_size=5)  # fmt: skip


def offsets_of(plan: list[Range]) -> set[tuple[int, int]]:
    return {(range_.partition, offset) for range_ in plan for offset in range(range_.from_offset, range_.until_offset)}


@given(st.lists(ranges, unique_by=lambda range_: range_.partition, max_size=6), st.integers(1000, 50_000))
def test_loads_tile_the_requested_ranges_and_none_exceeds_the_limit(requested: list[Range], limit: int) -> None:
    loads = cut_loads(requested, limit)

    assert all(0 < sum(map(len, load)) <= limit for load in loads)
    for whole in requested:
        pieces = [range_ for load in loads for range_ in load if range_.partition == whole.partition]
        assert pieces[0].from_offset == whole.from_offset
        assert pieces[-1].until_offset == whole.until_offset
        assert all(a.until_offset == b.from_offset for a, b in zip(pieces, pieces[1:], strict=False))


@given(st.lists(ranges, min_size=1, max_size=6, unique_by=lambda range_: range_.partition), st.integers(10, 50_000))
def test_every_load_except_the_last_is_full(requested: list[Range], limit: int) -> None:
    assert all(sum(map(len, load)) == limit for load in cut_loads(requested, limit)[:-1])


def test_loads_take_equal_shares_of_the_partitions_and_the_rest_of_short_ones() -> None:
    assert cut_loads([Range(0, 0, 10), Range(1, 0, 100)], 60) == [
        (Range(0, 0, 10), Range(1, 0, 50)),
        (Range(1, 50, 100),),
    ]


@given(few, few)
def test_ranges_are_subtracted_and_intersected_offset_by_offset(one: list[Range], other: list[Range]) -> None:
    assert offsets_of(subtract_ranges(one, other)) == offsets_of(one) - offsets_of(other)
    assert offsets_of(intersect_ranges(one, other)) == offsets_of(one) & offsets_of(other)
