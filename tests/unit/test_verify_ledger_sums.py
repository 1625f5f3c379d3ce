"""Verification without services: the sums of a partition's offsets, and the choice of the chunks to read again."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.ledger.verification import StagedChunk
from penstock.model.log import PartitionLog
from penstock.model.ranges import Range
from penstock.verify.chunks import choose_share, find_chunks_in_log, find_truncated, group_passes, join_ranges
from penstock.verify.ledger_sums import PartitionAccount, check_account

KINDS = ("covered", "lost", "gaps")
bounds = st.lists(st.integers(0, 200), min_size=2, max_size=12, unique=True).map(sorted)
kinds = st.lists(st.sampled_from(KINDS), min_size=12, max_size=12)


def make_account(pieces: list[tuple[int, int, str]], origin: int, position: int) -> PartitionAccount:
    parts = {kind: tuple(Range(3, start, until) for start, until, of in pieces if of == kind) for kind in KINDS}
    return PartitionAccount(1, 3, origin, position, **parts)


def split(points: list[int], named: list[str]) -> list[tuple[int, int, str]]:
    return [(start, until, kind) for (start, until), kind in zip(pairwise(points), named, strict=False)]


@given(bounds, kinds)
def test_offsets_that_are_each_covered_lost_or_a_gap_add_up(points: list[int], named: list[str]) -> None:
    assert check_account(make_account(split(points, named), points[0], points[-1])) == []


@given(bounds, kinds, st.data())
def test_a_piece_that_is_missing_doubled_or_beyond_the_position_does_not_add_up(
    points: list[int], named: list[str], data: st.DataObject
) -> None:
    pieces = split(points, named)
    place = data.draw(st.integers(0, len(pieces) - 1))
    start, until, _ = pieces[place]
    missing = check_account(make_account(pieces[:place] + pieces[place + 1 :], points[0], points[-1]))
    assert [fault.range for fault in missing] == [Range(3, start, until)]
    twice = check_account(make_account([*pieces, (start, until, "lost")], points[0], points[-1]))
    assert twice
    assert check_account(make_account(pieces, points[0], points[-1] - 1))
    assert check_account(make_account(pieces, points[0], points[-1] + 1))


def stage(ranges: list[tuple[int, int, int]]) -> list[StagedChunk]:
    return [StagedChunk(1, 1, task, *range_, 1, 7, "native", "read_committed") for task, range_ in enumerate(ranges)]


chunks = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(1, 9)).map(
        lambda each: (each[0], each[1], sum(each[1:]))
    ),
    max_size=15,
).map(stage)


@given(chunks)
def test_each_chunk_is_in_one_pass_without_gaps_within_a_partition(staged: list[StagedChunk]) -> None:
    passes = group_passes(staged)
    assert sorted(place for places in passes for place in places) == list(range(len(staged)))
    for places in passes:
        ranges = [staged[place].range for place in places]
        spans = join_ranges(ranges)
        assert len(spans) == len({range_.partition for range_ in ranges})
        assert sum(map(len, spans)) == sum(map(len, ranges)), "no gap, and nothing twice"


@given(chunks, st.floats(0, 1), st.integers())
def test_a_share_has_at_least_one_chunk(staged: list[StagedChunk], share: float, seed: int) -> None:
    chosen = choose_share(staged, share, seed)
    assert set(map(id, chosen)) <= set(map(id, staged))
    assert len(chosen) == (min(len(staged), max(1, round(share * len(staged)))) if share else 0)


@given(chunks, st.integers(0, 30), st.integers(0, 60))
def test_chunks_are_in_the_log_completely_or_beyond_its_end(staged: list[StagedChunk], start: int, end: int) -> None:
    assume(start <= end)
    partitions = {number: PartitionLog(start, end) for number in range(2)}
    in_log = find_chunks_in_log(staged, partitions)
    for chunk in staged:
        complete = chunk.partition < 2 and start <= chunk.from_offset and chunk.until_offset <= end
        assert (chunk in in_log) == complete
    truncated = {
        chunk.range.partition for chunk in staged if chunk.range.partition == 2 or chunk.range.until_offset > end
    }
    assert {range_.partition for range_ in find_truncated(staged, partitions)} == truncated
