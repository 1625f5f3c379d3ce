"""Verification without services: the sums of a partition's offsets, and the choice of the chunks to read again."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.ledger.verification import StagedChunk
from penstock.model.log import PartitionLog
from penstock.model.ranges import Range
from penstock.verify.chunks import choose_share, find_chunks_in_log, find_spans, find_truncated, group_passes
from penstock.verify.ledger_sums import PartitionAccount, check_account
from penstock.verify.reread import Request, list_bounds, make_hasher

KINDS = ("covered", "lost", "gaps")
bounds = st.lists(st.integers(0, 200), min_size=2, max_size=12, unique=True).map(sorted)
kinds = st.lists(st.sampled_from(KINDS), min_size=12, max_size=12)


def make_account(pieces: list[tuple[int, int, str]], origin: int, position: int) -> PartitionAccount:
    parts = {kind: tuple(Range(3, start, until) for start, until, of in pieces if of == kind) for kind in KINDS}
    return PartitionAccount(1, 3, origin, position, parts["covered"], parts["lost"], parts["gaps"])


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


@given(chunks, st.integers(0, 9), st.sets(st.integers(0, 45), max_size=3))
def test_each_chunk_is_in_one_span_and_nothing_avoided_is_between(
    staged: list[StagedChunk], bridged: int, avoided: set[int]
) -> None:
    spans = find_spans(staged, range(len(staged)), [Range(1, each, each + 1) for each in avoided], bridged)
    assert sorted(place for span in spans for place in span.places) == list(range(len(staged)))
    for span in spans:
        held = {offset for place in span.places for offset in offsets_of(staged[place].range)}
        between = set(offsets_of(span.range)) - held
        assert {staged[place].partition for place in span.places} == {span.range.partition}
        assert held <= set(offsets_of(span.range))
        assert len(between) <= bridged * (len(span.places) - 1)
        assert span.range.partition != 1 or not between & avoided
    for before, after in pairwise(spans):
        assert before.range.partition < after.range.partition or before.range.until_offset < after.range.from_offset
    for one_pass in group_passes(spans):
        assert len({span.range.partition for span in one_pass}) == len(one_pass)


def offsets_of(range_: Range) -> range:
    return range(range_.from_offset, range_.until_offset)


def test_many_single_records_beside_their_load_are_read_in_one_pass() -> None:
    staged = stage([(0, 0, 1_200), *((0, offset, offset + 1) for offset in range(0, 1_200, 2))])
    [spans] = group_passes(find_spans(staged, range(len(staged))))
    assert [span.range for span in spans] == [Range(0, 0, 1_200)]
    distant = stage([(0, 0, 1), (0, 1_000_000, 1_000_001)])
    assert [len(spans) for spans in group_passes(find_spans(distant, range(2)))] == [1, 1]


@given(chunks, st.data())
def test_each_record_of_a_batch_goes_to_the_chunks_that_hold_it(staged: list[StagedChunk], data: st.DataObject) -> None:
    requests = [Request(chunk, "topic", None, None) for chunk in staged]
    for spans in group_passes(find_spans(staged, range(len(staged)), bridged=9)):
        for span in spans:
            offsets = sorted(data.draw(st.sets(st.sampled_from(offsets_of(span.range)), min_size=1)))
            cut = data.draw(st.integers(0, len(offsets)))
            parts = [make_part(span.range.partition, part) for part in (offsets[:cut], offsets[cut:])]
            bounds = list_bounds(staged, span)
            found: Counter[int] = Counter()
            for part in make_hasher(requests, [{span.range.partition: bounds}])(iter(parts)):
                found[part["place"][0].as_py()] += part["records"][0].as_py()
            held = {place: len(set(offsets) & set(offsets_of(staged[place].range))) for place in span.places}
            assert found == Counter({place: count for place, count in held.items() if count})


def make_part(partition: int, offsets: list[int]) -> pa.RecordBatch:
    """A batch as Spark makes it."""
    count = len(offsets)
    zeros = pa.array([0] * count, pa.int32())
    return pa.RecordBatch.from_pydict(
        {
            "pass": zeros,
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
            "timestampType": zeros,
            "key": pa.array([None] * count, pa.binary()),
            "value": pa.array([b"v"] * count, pa.binary()),
            "headers": pa.array([None] * count, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )


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
