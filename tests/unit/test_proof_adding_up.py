"""Whether a partition's offsets add up, and which chunks are read again: pure."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.model.log import PartitionLog
from penstock.model.ranges import Range
from penstock.verify.chunks import Staged, choose_share, find_cut, find_held, group_passes, span_of
from penstock.verify.ledger_sums import Standing, judge_standing

KINDS = ("covered", "lost", "gaps")
cuts = st.lists(st.integers(0, 200), min_size=2, max_size=12, unique=True).map(sorted)
kinds = st.lists(st.sampled_from(KINDS), min_size=12, max_size=12)


def stand(pieces: list[tuple[int, int, str]], origin: int, position: int) -> Standing:
    parts = {kind: tuple(Range(3, start, until) for start, until, of in pieces if of == kind) for kind in KINDS}
    return Standing(1, 3, origin, position, **parts)


def cut_up(points: list[int], named: list[str]) -> list[tuple[int, int, str]]:
    return [(start, until, kind) for (start, until), kind in zip(pairwise(points), named, strict=False)]


@given(cuts, kinds)
def test_offsets_that_are_each_covered_lost_or_a_gap_add_up(points: list[int], named: list[str]) -> None:
    assert judge_standing(stand(cut_up(points, named), points[0], points[-1])) == []


@given(cuts, kinds, st.data())
def test_a_piece_that_is_missing_told_twice_or_beyond_the_position_does_not(
    points: list[int], named: list[str], data: st.DataObject
) -> None:
    pieces = cut_up(points, named)
    place = data.draw(st.integers(0, len(pieces) - 1))
    start, until, _ = pieces[place]
    missing = judge_standing(stand(pieces[:place] + pieces[place + 1 :], points[0], points[-1]))
    assert [fault.range for fault in missing] == [Range(3, start, until)]
    twice = judge_standing(stand([*pieces, (start, until, "lost")], points[0], points[-1]))
    assert twice
    assert judge_standing(stand(pieces, points[0], points[-1] - 1))
    assert judge_standing(stand(pieces, points[0], points[-1] + 1))


def stage(ranges: list[tuple[int, int, int]]) -> list[Staged]:
    return [Staged(1, 1, task, Range(*range_), 1, 7, "native", "read_committed") for task, range_ in enumerate(ranges)]


chunks = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 9)).map(
        lambda each: (each[0], each[1], sum(each[1:]))
    ),
    max_size=15,
).map(stage)


@given(chunks)
def test_each_chunk_is_in_one_pass_in_which_those_of_a_partition_follow_each_other(staged: list[Staged]) -> None:
    passes = group_passes(staged)
    assert sorted(place for places in passes for place in places) == list(range(len(staged)))
    for places in passes:
        ranges = [staged[place].range for place in places]
        spans = span_of(ranges)
        assert len(spans) == len({range_.partition for range_ in ranges})
        assert sum(map(len, spans)) == sum(map(len, ranges)), "no gap, and nothing twice"


@given(chunks, st.floats(0, 1), st.integers())
def test_a_share_is_that_part_of_the_chunks_and_at_least_one(staged: list[Staged], share: float, seed: int) -> None:
    chosen = choose_share(staged, share, seed)
    assert set(map(id, chosen)) <= set(map(id, staged))
    assert len(chosen) == (min(len(staged), max(1, round(share * len(staged)))) if share else 0)


@given(chunks, st.integers(0, 30), st.integers(0, 60))
def test_what_the_log_holds_whole_is_held_and_what_lies_behind_its_end_was_cut(
    staged: list[Staged], start: int, end: int
) -> None:
    assume(start <= end)
    partitions = {number: PartitionLog(start, end) for number in range(2)}
    held = find_held(staged, partitions)
    for chunk in staged:
        range_ = chunk.range
        assert (chunk in held) == (range_.partition < 2 and start <= range_.from_offset and range_.until_offset <= end)
    reached = {
        chunk.range.partition for chunk in staged if chunk.range.partition == 2 or chunk.range.until_offset > end
    }
    assert {range_.partition for range_ in find_cut(staged, partitions)} == reached
