"""Every hole is of exactly one kind, whatever the log looks like and in whatever pieces it is looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.holes.kinds import (
    HOLDS_A_RECORD,
    KINDS,
    MOST_RANGES,
    NO_BATCH,
    POLICY_UNKNOWN,
    Hole,
    Kind,
    Naming,
    Unexplained,
    name_holes_by,
)
from penstock.kafka.batches.spans import Span, What, tile_spans

# What each offset is, told without the code under test.
EXPECTED: dict[What, Kind] = {"aborted": "aborted", "marker": "marker", "removed": "compacted", "gone": "gone"}
offsets_of_a_log: st.SearchStrategy[list[What]] = st.lists(
    st.sampled_from(["record", "aborted", "marker", "removed", "absent"]), max_size=60
)


@dataclass(frozen=True)
class Case:
    """What each offset from `start` on is, which offsets have no row, and how much one look shows."""

    start: int
    log: list[What]
    holes: list[int]
    shown: int

    def look(self, offset: int) -> list[Span]:
        """As the second reader would: from this offset on, for as far as one answer goes."""
        rest = self.log[offset - self.start :][: self.shown]
        spans, at = [], offset
        for what, alike in groupby(rest):
            size = len(list(alike))
            spans.append(Span(at, at + size, what))
            at += size
        return spans

    def name(self, *, compacted: bool | None) -> Naming:
        return name_holes_by(self.look, join(self.holes), compacted=compacted)

    def what(self, offset: int) -> What:
        return self.log[offset - self.start]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A log whose start is anywhere, and holes anywhere in it, at records too."""
    start, gone = draw(st.integers(0, 2**40)), draw(st.integers(0, 10))
    below: list[What] = ["gone"] * gone
    log = below + draw(offsets_of_a_log)
    holes = sorted(draw(st.sets(st.integers(start, start + len(log) - 1)))) if log else []
    return Case(start, log, holes, draw(st.integers(1, 20)))


def join(offsets: list[int]) -> list[Hole]:
    """Offsets as holes, neighbours as one."""
    islands = groupby(enumerate(offsets), key=lambda numbered: numbered[1] - numbered[0])
    runs = [[offset for _, offset in island] for _, island in islands]
    return [Hole(run[0], run[-1] + 1) for run in runs]


@given(case=cases(), compacted=st.sampled_from([True, False, None]))
def test_every_hole_gets_the_one_kind_that_the_log_says(case: Case, compacted: bool | None) -> None:
    naming = case.name(compacted=compacted)

    absent: Kind = "compacted" if compacted else "unexplained"
    expected = Counter(
        "unexplained" if case.what(offset) == "record" else EXPECTED.get(case.what(offset), absent)
        for offset in case.holes
    )
    assert naming.unread is None
    assert sum(naming.counts.values()) == len(case.holes), "each hole counts once"
    assert naming.counts == dict.fromkeys(KINDS, 0) | expected


@given(case=cases(), compacted=st.sampled_from([True, False, None]))
def test_unexplained_ranges_hold_every_unexplained_hole_and_never_a_row(case: Case, compacted: bool | None) -> None:
    naming = case.name(compacted=compacted)

    named = [offset for found in naming.unexplained for offset in range(found.from_offset, found.until_offset)]
    assert set(named) <= set(case.holes), "a record that has its row was named a hole"
    assert len(named) == len(set(named)) == naming.counts["unexplained"]
    for found in naming.unexplained:
        whats = {case.what(offset) for offset in range(found.from_offset, found.until_offset)}
        assert whats == ({"record"} if found.why == HOLDS_A_RECORD else {"absent"})
    assert all(
        one.until_offset < other.from_offset or one.why != other.why for one, other in pairwise(naming.unexplained)
    )


@given(case=cases(), cut=st.integers(0, 70))
def test_what_lies_beyond_the_log_s_end_is_not_named(case: Case, cut: int) -> None:
    shorter = Case(case.start, case.log[:cut], case.holes, case.shown)
    naming = shorter.name(compacted=True)

    end = case.start + len(shorter.log)
    beyond = [offset for offset in case.holes if offset >= end]
    assert naming.unread == (beyond[0] if beyond else None)
    assert sum(naming.counts.values()) == len(case.holes) - len(beyond)


@pytest.mark.parametrize(
    ("what", "compacted", "why"),
    [
        ("record", True, HOLDS_A_RECORD),
        ("record", False, HOLDS_A_RECORD),
        ("absent", False, NO_BATCH),
        ("absent", None, POLICY_UNKNOWN),
    ],
)
def test_what_is_unexplained_says_why(what: What, compacted: bool | None, why: str) -> None:
    naming = name_holes_by(lambda at: [Span(at, 10, what)], [Hole(3, 5)], compacted=compacted)

    assert naming.unexplained == [Unexplained(3, 5, why)]


def test_of_many_unexplained_ranges_the_first_are_kept_and_all_are_counted() -> None:
    holes = [Hole(offset, offset + 1) for offset in range(0, 1000, 2)]
    naming = name_holes_by(lambda at: [Span(at, 1000, "record")], holes, compacted=False)

    assert naming.counts["unexplained"] == 500
    assert len(naming.unexplained) == MOST_RANGES
    assert naming.unexplained[-1].from_offset == 2 * (MOST_RANGES - 1)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 10))), st.integers(0, 60), st.integers(0, 60))
def test_spans_are_cut_and_what_lies_between_them_is_absent(pieces: list[tuple[int, int]], at: int, until: int) -> None:
    spans, end = [], 0
    for gap, size in pieces:
        spans.append(Span(end + gap, end + gap + size, "record"))
        end += gap + size
    tiled = list(tile_spans(spans, at, until))

    records = {offset for span in spans for offset in range(span.from_offset, span.until_offset)}
    told = {offset: span.what for span in tiled for offset in range(span.from_offset, span.until_offset)}
    assert told == {offset: "record" if offset in records else "absent" for offset in range(at, until)}
    assert sum(map(len, tiled)) == len(told)
