"""What a backfill loads, and what it refuses: decisions over the log and the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.backfill.choice import Known, choose_gaps, choose_spans, find_refusals, spans_of_time
from penstock.backfill.estimate import Past, estimate_seconds
from penstock.backfill.request import AllGaps, ByOffsets, ByTime, Span, read_form, read_what
from penstock.errors import WrongUseError
from penstock.model.log import PartitionLog
from penstock.model.ranges import Held, Range

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def know(**changes: Any) -> Known:
    """A log of offsets 10 to 100 whose live loads have come to 80; load 1 brought 10 to 50."""
    known = {
        "log": {0: PartitionLog(10, 100)},
        "positions": {0: 80},
        "covered": (Held(Range(0, 10, 50), 1),),
        "planned": (),
        "gaps": (Range(0, 50, 80),),
    }
    return Known(**{**known, **changes})


@pytest.mark.parametrize(
    ("span", "told"),
    [
        (Span(0, 60, 60), "nothing is in it"),
        (Span(0, 70, 60), "its end is before its start"),
        (Span(0, 90, 101), "the log ends at 100"),
        (Span(0, 5, 60), "the log starts at 10 now; of it, [10, 60) is still there"),
        (Span(0, 5, 9), "the log starts at 10 now"),
        (Span(0, 60, 81), "from 80 on the live loads bring it"),
        (Span(1, 0, 1), "there is no such partition; the topic has 0"),
        (Span(0, 40, 60), "partition 0 offsets [40, 50): load 1 has brought it"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_what_is_still_there(span: Span, told: str) -> None:
    [refusal] = find_refusals([span], know(), replace=False)
    assert told in refusal


def test_a_range_that_a_planned_load_is_about_to_bring_is_refused_even_to_replace() -> None:
    known = know(planned=(Held(Range(0, 60, 70), 9, backfill=2),))
    [told] = find_refusals([Span(0, 65, 80)], known, replace=True)
    assert told.startswith("partition 0 offsets [65, 70): load 9 of backfill 2 is about to load it; ")
    assert "--resume 2" in told
    assert "penstock discard 9" in told


def test_offsets_named_twice_are_refused() -> None:
    [refusal] = find_refusals([Span(0, 50, 70), Span(0, 60, 80)], know(), replace=False)
    assert refusal == "partition 0 offsets [60, 80): some of it is named twice"


def test_all_refusals_are_told_at_once() -> None:
    assert len(find_refusals([Span(0, 60, 60), Span(7, 0, 1), Span(0, 0, 3)], know(), replace=False)) == 3


def test_to_replace_names_the_loads_that_held_the_range() -> None:
    assert find_refusals([Span(0, 40, 60)], know(), replace=True) == []
    choice = choose_spans([Span(0, 40, 60)], know(), replace=True)
    assert (choice.ranges, choice.replaced) == ((Range(0, 40, 60),), (Held(Range(0, 40, 50), 1),))


def test_all_gaps_are_what_the_log_still_holds_and_nobody_loads_yet() -> None:
    known = know(gaps=(Range(0, 5, 20), Range(0, 50, 80)), planned=(Held(Range(0, 60, 70), 9),))
    choice = choose_gaps(known)
    assert choice.ranges == (Range(0, 10, 20), Range(0, 50, 60), Range(0, 70, 80))
    assert choice.gone == (Range(0, 5, 10),)
    assert choice.planned == (Held(Range(0, 60, 70), 9),)


@given(st.dictionaries(st.integers(0, 3), st.integers(0, 120)), st.dictionaries(st.integers(0, 3), st.integers(0, 120)))
def test_a_time_without_a_match_loads_nothing_of_a_partition_and_never_all_of_it(
    starts: dict[int, int], ends: dict[int, int]
) -> None:
    known = know(positions={0: 80, 1: 0, 2: 120})
    for span in spans_of_time(starts, ends, known):
        assert span.partition in starts
        assert starts[span.partition] == span.from_offset < span.until_offset <= known.positions[span.partition]
        assert span.until_offset <= ends.get(span.partition, span.until_offset)


def test_what_is_asked_is_read_in_one_of_three_ways() -> None:
    assert read_what(["0:1-2", " 1 : 5 - 9 "], None, None, gaps=False) == ByOffsets((Span(0, 1, 2), Span(1, 5, 9)))
    assert read_what([], NOON, None, gaps=False) == ByTime(NOON, None)
    assert read_what([], None, None, gaps=True) == AllGaps()


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
def test_anything_else_is_refused(offsets: list[str], since: Any, until: Any, gaps: bool) -> None:
    with pytest.raises(WrongUseError):
        read_what(offsets, since, until, gaps=gaps)


EMPTY = {"offsets": None, "from_time": None, "until_time": ""}


@pytest.mark.parametrize(
    ("form", "asked"),
    [
        ({"what": "all gaps"}, AllGaps()),
        ({"what": "offsets", "offsets": ["0:1-2"]}, ByOffsets((Span(0, 1, 2),))),
        ({"what": "time", "from_time": "2026-01-31T12:00:00Z"}, ByTime(NOON, None)),
    ],
)
def test_a_form_is_read(form: dict[str, Any], asked: Any) -> None:
    assert read_form({**EMPTY, **form}) == asked


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"what": "all gaps", "offsets": ["0:1-2"]}, "`what` is all gaps, and offsets is given too"),
        ({"what": "offsets", "offsets": ["0:1-2"], "until_time": "2026-01-31T12:00:00Z"}, "until_time is given too"),
        ({"what": "offsets"}, "one of three ways"),
        ({"what": "time", "from_time": "yesterday"}, "'yesterday' is no time"),
    ],
)
def test_a_form_that_asks_for_two_things_or_none_is_refused(form: dict[str, Any], told: str) -> None:
    with pytest.raises(WrongUseError, match=told):
        read_form({**EMPTY, **form})


past = st.lists(st.builds(Past, st.integers(1, 10**9), st.floats(0.1, 10**5)), min_size=1, max_size=20)


@given(past, st.lists(st.integers(1, 10**9), min_size=1, max_size=20))
def test_an_estimate_grows_with_every_load_and_is_no_less_than_the_quickest(
    before: list[Past], loads: list[int]
) -> None:
    seconds = estimate_seconds(before, loads)
    assert seconds is not None
    assert seconds >= len(loads) * min(load.seconds for load in before) * 0.999
    assert (estimate_seconds(before, [*loads, 1]) or 0) > seconds


def test_without_a_load_before_it_nothing_is_estimated() -> None:
    assert estimate_seconds([], [5]) is None


def test_loads_like_those_before_take_as_long() -> None:
    assert estimate_seconds([Past(1000, 12.0), Past(2000, 14.0)], [1000, 2000]) == pytest.approx(26.0)
