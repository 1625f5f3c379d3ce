"""Every hole has exactly one kind, for any log and for any size of the answers that describe it."""

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
    find_kinds,
)
from penstock.model.log import Content, Span, tile_spans

# The kind by content, stated without the code under test.
EXPECTED: dict[Content, Kind] = {"aborted": "aborted", "marker": "marker", "removed": "compacted", "gone": "gone"}
offsets_of_a_log: st.SearchStrategy[list[Content]] = st.lists(
    st.sampled_from(["record", "aborted", "marker", "removed", "absent"]), max_size=60
)


@dataclass(frozen=True)
class Case:
    """The content of each offset from `start` on, the offsets without a row, and the size of one answer."""

    start: int
    log: list[Content]
    holes: list[int]
    shown: int

    def read_spans(self, offset: int) -> list[Span]:
        """Answer like the second reader: from this offset on, as far as one answer reaches."""
        rest = self.log[offset - self.start :][: self.shown]
        spans, at = [], offset
        for content, alike in groupby(rest):
            size = len(list(alike))
            spans.append(Span(at, at + size, content))
            at += size
        return spans

    def name(self, *, compacted: bool | None) -> Naming:
        return find_kinds(self.read_spans, join(self.holes), compacted=compacted)

    def content(self, offset: int) -> Content:
        return self.log[offset - self.start]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A log with any start, and holes anywhere in it, at records too."""
    start, gone = draw(st.integers(0, 2**40)), draw(st.integers(0, 10))
    below: list[Content] = ["gone"] * gone
    log = below + draw(offsets_of_a_log)
    holes = sorted(draw(st.sets(st.integers(start, start + len(log) - 1)))) if log else []
    return Case(start, log, holes, draw(st.integers(1, 20)))


def join(offsets: list[int]) -> list[Hole]:
    """Join neighbouring offsets into holes."""
    islands = groupby(enumerate(offsets), key=lambda numbered: numbered[1] - numbered[0])
    runs = [[offset for _, offset in island] for _, island in islands]
    return [Hole(run[0], run[-1] + 1) for run in runs]


@given(case=cases(), compacted=st.sampled_from([True, False, None]))
def test_every_hole_gets_the_kind_of_the_log_s_content(case: Case, compacted: bool | None) -> None:
    naming = case.name(compacted=compacted)

    absent: Kind = "compacted" if compacted else "unexplained"
    expected = Counter(
        "unexplained" if case.content(offset) == "record" else EXPECTED.get(case.content(offset), absent)
        for offset in case.holes
    )
    assert naming.unread is None
    assert sum(naming.counts.values()) == len(case.holes), "each hole counts once"
    assert naming.counts == dict.fromkeys(KINDS, 0) | expected


@given(case=cases(), compacted=st.sampled_from([True, False, None]))
def test_unexplained_ranges_hold_every_unexplained_hole_and_never_a_row(case: Case, compacted: bool | None) -> None:
    naming = case.name(compacted=compacted)

    named = [offset for found in naming.unexplained for offset in range(found.from_offset, found.until_offset)]
    assert set(named) <= set(case.holes), "a record with a row was named a hole"
    assert len(named) == len(set(named)) == naming.counts["unexplained"]
    for found in naming.unexplained:
        contents = {case.content(offset) for offset in range(found.from_offset, found.until_offset)}
        assert contents == ({"record"} if found.why == HOLDS_A_RECORD else {"absent"})
    assert all(
        one.until_offset < other.from_offset or one.why != other.why for one, other in pairwise(naming.unexplained)
    )


@given(case=cases(), length=st.integers(0, 70))
def test_holes_beyond_the_log_s_end_are_not_named(case: Case, length: int) -> None:
    shorter = Case(case.start, case.log[:length], case.holes, case.shown)
    naming = shorter.name(compacted=True)

    end = case.start + len(shorter.log)
    beyond = [offset for offset in case.holes if offset >= end]
    assert naming.unread == (beyond[0] if beyond else None)
    assert sum(naming.counts.values()) == len(case.holes) - len(beyond)


@pytest.mark.parametrize(
    ("content", "compacted", "why"),
    [
        ("record", True, HOLDS_A_RECORD),
        ("record", False, HOLDS_A_RECORD),
        ("absent", False, NO_BATCH),
        ("absent", None, POLICY_UNKNOWN),
    ],
)
def test_an_unexplained_hole_has_a_reason(content: Content, compacted: bool | None, why: str) -> None:
    naming = find_kinds(lambda at: [Span(at, 10, content)], [Hole(3, 5)], compacted=compacted)

    assert naming.unexplained == [Unexplained(3, 5, why)]


def test_the_first_of_many_unexplained_ranges_are_kept_and_all_are_counted() -> None:
    holes = [Hole(offset, offset + 1) for offset in range(0, 1000, 2)]
    naming = find_kinds(lambda at: [Span(at, 1000, "record")], holes, compacted=False)

    assert naming.counts["unexplained"] == 500
    assert len(naming.unexplained) == MOST_RANGES
    assert naming.unexplained[-1].from_offset == 2 * (MOST_RANGES - 1)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 10))), st.integers(0, 60), st.integers(0, 60))
def test_spans_are_clipped_and_offsets_between_them_are_absent(
    pieces: list[tuple[int, int]], at: int, until: int
) -> None:
    spans, end = [], 0
    for gap, size in pieces:
        spans.append(Span(end + gap, end + gap + size, "record"))
        end += gap + size
    tiled = list(tile_spans(spans, at, until))

    records = {offset for span in spans for offset in range(span.from_offset, span.until_offset)}
    contents = {offset: span.content for span in tiled for offset in range(span.from_offset, span.until_offset)}
    assert contents == {offset: "record" if offset in records else "absent" for offset in range(at, until)}
    assert sum(map(len, tiled)) == len(contents)
