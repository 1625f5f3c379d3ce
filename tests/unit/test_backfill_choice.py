"""The ranges that a backfill loads or refuses: decisions over the log and the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.backfill.choice import Known, choose_gaps, choose_spans, choose_spans_of_time, find_refusals
from penstock.backfill.plan import PastLoad, estimate_seconds
from penstock.backfill.request import AllGaps, ByOffsets, ByTime, Span, read_form, read_selection
from penstock.errors import WrongUseError
from penstock.model.log import PartitionLog
from penstock.model.ranges import LoadRange, Range

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def make_known(**changes: Any) -> Known:
    """A log of offsets 10 to 100 with live loads up to 80; load 1 published 10 to 50."""
    known = {
        "log": {0: PartitionLog(10, 100)},
        "positions": {0: 80},
        "covered": (LoadRange(Range(0, 10, 50), 1),),
        "planned": (),
        "gaps": (Range(0, 50, 80),),
    }
    return Known(**{**known, **changes})


@pytest.mark.parametrize(
    ("span", "reason"),
    [
        (Span(0, 60, 60), "the span is empty"),
        (Span(0, 70, 60), "its end is before its start"),
        (Span(0, 90, 101), "the log ends at 100"),
        (Span(0, 5, 60), "the log starts at 10 now; [10, 60) is still there"),
        (Span(0, 5, 9), "the log starts at 10 now"),
        (Span(0, 60, 81), "live loads read the offsets from 80 on"),
        (Span(1, 0, 1), "there is no such partition; the topic has 0"),
        (Span(0, 40, 60), "partition 0 offsets [40, 50): load 1 has published it"),
    ],
)
def test_a_span_that_cannot_be_loaded_is_refused_with_the_reason(span: Span, reason: str) -> None:
    [refusal] = find_refusals([span], make_known(), replace=False)
    assert reason in refusal


def test_a_range_that_an_unfinished_load_has_planned_is_refused_even_to_replace() -> None:
    known = make_known(planned=(LoadRange(Range(0, 60, 70), 9, backfill=2),))
    [refusal] = find_refusals([Span(0, 65, 80)], known, replace=True)
    assert refusal.startswith("partition 0 offsets [65, 70): load 9 of backfill 2 is about to load it; ")
    assert "--resume 2" in refusal
    assert "penstock discard 9" in refusal


def test_rows_that_were_dropped_are_never_replaced() -> None:
    known = make_known(dropped=(LoadRange(Range(0, 10, 30), 1),))
    [refusal] = find_refusals([Span(0, 20, 60)], known, replace=True)
    assert refusal.startswith("partition 0 offsets [20, 30): the rows of load 1 were dropped (keep_rows_days)")
    assert find_refusals([Span(0, 30, 60)], known, replace=True) == []


def test_offsets_given_twice_are_refused() -> None:
    [refusal] = find_refusals([Span(0, 50, 70), Span(0, 60, 80)], make_known(), replace=False)
    assert refusal == "partition 0 offsets [60, 80): some of these offsets are given twice"


def test_all_refusals_are_reported_at_once() -> None:
    assert len(find_refusals([Span(0, 60, 60), Span(7, 0, 1), Span(0, 0, 3)], make_known(), replace=False)) == 3


def test_a_replacement_names_the_loads_that_hold_the_range() -> None:
    assert find_refusals([Span(0, 40, 60)], make_known(), replace=True) == []
    choice = choose_spans([Span(0, 40, 60)], make_known(), replace=True)
    assert (choice.ranges, choice.replaced) == ((Range(0, 40, 60),), (LoadRange(Range(0, 40, 50), 1),))


def test_all_gaps_are_those_that_the_log_still_holds_and_no_load_has_planned() -> None:
    known = make_known(gaps=(Range(0, 5, 20), Range(0, 50, 80)), planned=(LoadRange(Range(0, 60, 70), 9),))
    choice = choose_gaps(known)
    assert choice.ranges == (Range(0, 10, 20), Range(0, 50, 60), Range(0, 70, 80))
    assert choice.deleted == (Range(0, 5, 10),)
    assert choice.planned == (LoadRange(Range(0, 60, 70), 9),)


@given(st.dictionaries(st.integers(0, 3), st.integers(0, 120)), st.dictionaries(st.integers(0, 3), st.integers(0, 120)))
def test_a_time_without_a_match_loads_nothing_of_a_partition_and_never_all_of_it(
    starts: dict[int, int], ends: dict[int, int]
) -> None:
    known = make_known(positions={0: 80, 1: 0, 2: 120})
    for span in choose_spans_of_time(starts, ends, known):
        assert span.partition in starts
        assert starts[span.partition] == span.from_offset < span.until_offset <= known.positions[span.partition]
        assert span.until_offset <= ends.get(span.partition, span.until_offset)


def test_a_request_names_offsets_a_time_or_all_gaps() -> None:
    assert read_selection(["0:1-2", " 1 : 5 - 9 "], None, None, gaps=False) == ByOffsets((Span(0, 1, 2), Span(1, 5, 9)))
    assert read_selection([], NOON, None, gaps=False) == ByTime(NOON, None)
    assert read_selection([], None, None, gaps=True) == AllGaps()


@pytest.mark.parametrize(
    ("offsets", "since", "until", "gaps"),
    [
        ([], None, None, False),
        (["0:1-2"], None, None, True),
        (["0:1-2"], NOON, None, False),
        (["0:1-2"], None, NOON, False),
        (["0:1"], None, None, False),
        (["0:-1-2"], None, None, False),
        ([], NOON, NOON - timedelta(hours=1), False),
        ([], NOON.replace(tzinfo=None), None, False),
        ([], datetime(1969, 12, 31, 23, tzinfo=UTC), None, False),
    ],
)
def test_any_other_request_is_refused(offsets: list[str], since: Any, until: Any, gaps: bool) -> None:
    with pytest.raises(WrongUseError):
        read_selection(offsets, since, until, gaps=gaps)


EMPTY = {"offsets": None, "from_time": None, "until_time": ""}


@pytest.mark.parametrize(
    ("form", "selection"),
    [
        ({"what": "all gaps"}, AllGaps()),
        ({"what": "offsets", "offsets": ["0:1-2"]}, ByOffsets((Span(0, 1, 2),))),
        ({"what": "time", "from_time": "2026-01-31T12:00:00Z"}, ByTime(NOON, None)),
    ],
)
def test_a_form_is_read(form: dict[str, Any], selection: Any) -> None:
    assert read_form({**EMPTY, **form}) == selection


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"what": "all gaps", "offsets": ["0:1-2"]}, "`what` is all gaps, and offsets is given too"),
        ({"what": "offsets", "offsets": ["0:1-2"], "until_time": "2026-01-31T12:00:00Z"}, "until_time is given too"),
        ({"what": "offsets"}, "names no offsets"),
        ({"what": "time", "from_time": "yesterday"}, "'yesterday' is not a time"),
    ],
)
def test_a_form_with_two_kinds_of_request_or_none_is_refused(form: dict[str, Any], reason: str) -> None:
    with pytest.raises(WrongUseError, match=reason):
        read_form({**EMPTY, **form})


past = st.lists(st.builds(PastLoad, st.integers(1, 10**9), st.floats(0.1, 10**5)), min_size=1, max_size=20)


@given(past, st.lists(st.integers(1, 10**9), min_size=1, max_size=20))
def test_an_estimate_grows_with_every_load_and_counts_the_quickest_load_for_each(
    before: list[PastLoad], loads: list[int]
) -> None:
    seconds = estimate_seconds(before, loads)
    assert seconds is not None
    assert seconds >= len(loads) * min(load.seconds for load in before) * 0.999
    assert (estimate_seconds(before, [*loads, 1]) or 0) > seconds


def test_there_is_no_estimate_without_an_earlier_load() -> None:
    assert estimate_seconds([], [5]) is None


def test_loads_of_the_same_sizes_as_earlier_ones_take_as_long() -> None:
    assert estimate_seconds([PastLoad(1000, 12.0), PastLoad(2000, 14.0)], [1000, 2000]) == pytest.approx(26.0)
