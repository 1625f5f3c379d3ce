"""The coverage map of a partition: each offset is counted once, in one cell and as one kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.coverage_map import (
    MOST_CELLS,
    Cell,
    Extent,
    Kind,
    Reason,
    Sums,
    add_known,
    cut_cells,
    fill_cells,
    fit_cells,
    merge_cells,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

UNCOVERED: tuple[Kind, ...] = ("lost", "pending", "rolled_back", "gap", "expired", "not_loaded")


@dataclass(frozen=True)
class Made:
    """A partition as the ledger could hold it."""

    extent: Extent
    covered: tuple[Sums, ...]
    reasons: tuple[Reason, ...]
    starts: Sequence[int]

    def fill(self) -> list[Cell]:
        """Fill the cells, as the ledger's statements do it: sums by cell, then the ranges of several cells."""
        by_cell: dict[int, list[Sums]] = {}
        for each in self.covered:
            by_cell.setdefault(each.cell, []).append(each)
        fitted = fit_cells(self.extent, self.starts, [_add_up(ranges) for ranges in by_cell.values()])
        ends = dict(fitted.unknown)
        found = [
            range_
            for cell, offset in ends.items()
            for range_ in by_cell[cell]
            if range_.from_offset <= offset < range_.until_offset
        ]
        return fill_cells(self.extent, self.starts, add_known(fitted, found), self.reasons, {})


def _add_up(ranges: Sequence[Sums]) -> Sums:
    return Sums(
        ranges[0].cell,
        min(each.from_offset for each in ranges),
        max(each.until_offset for each in ranges),
        sum(each.offsets for each in ranges),
        sum(each.rows for each in ranges),
        sum(each.quarantined for each in ranges),
        sum(each.holes for each in ranges),
        min(each.first_load for each in ranges),
        max(each.last_load for each in ranges),
        len(ranges),
    )


def _place(starts: Sequence[int], start: int, until: int, quarantined: int, holes: int, load: int) -> Sums:
    cell = sum(begin <= start for begin in starts)
    offsets = until - start
    rows = offsets - quarantined - holes
    return Sums(cell, start, until, offsets, rows, quarantined, holes, load, load, 1)


@st.composite
def partitions(draw: st.DrawFn) -> Made:
    """Make neighbouring spans: covered, lost, rolled back, planned, or nothing."""
    spans = draw(st.lists(st.tuples(st.sampled_from("ccclprg"), st.integers(1, 60)), max_size=40))
    first = draw(st.integers(0, 1000))
    position = first + sum(length for _, length in spans)
    end = position + draw(st.integers(0, 300))
    log_start = draw(st.one_of(st.none(), st.integers(0, end + 10)))
    extent = Extent(0, first, position, log_start, end)
    wanted = draw(st.one_of(st.none(), st.lists(st.integers(0, end + 10), max_size=20)))
    starts = cut_cells(extent, wanted)
    covered, reasons, at = [], [], first
    kinds = {"l": "lost", "p": "pending", "r": "rolled_back"}
    for load, (kind, length) in enumerate(spans, start=1):
        if kind == "c":
            quarantined = draw(st.integers(0, length))
            holes = draw(st.integers(0, length - quarantined))
            covered.append(_place(starts, at, at + length, quarantined, holes, load))
            if holes:
                reasons.append(Reason("unexplained_hole", at, at + 1, load))
        elif kind in kinds:
            reasons.append(Reason(kinds[kind], at, at + length, load))  # type: ignore[arg-type]
        at += length
    return Made(extent, tuple(covered), tuple(reasons), starts)


@given(partitions())
def test_cells_hold_every_offset_of_a_partition_once(made: Made) -> None:
    cells = made.fill()
    assert sum(map(len, cells)) == len(made.extent)
    bounds = [made.extent.first, *(cell.until_offset for cell in cells)]
    assert [cell.from_offset for cell in cells] == bounds[:-1]
    for cell in cells:
        assert sum(cell.counts.values()) == len(cell)
        assert min(cell.counts.values(), default=0) >= 0
        assert set(cell.counts) <= set(get_args(Kind))


@given(partitions())
def test_the_kinds_that_no_load_covers_are_exact(made: Made) -> None:
    cells = made.fill()
    for kind in UNCOVERED[:3]:
        wanted = sum(each.until_offset - each.from_offset for each in made.reasons if each.kind == kind)
        assert sum(cell.counts.get(kind, 0) for cell in cells) == wanted
    covered = sum(each.offsets for each in made.covered)
    uncovered = sum(cell.counts.get(kind, 0) for cell in cells for kind in UNCOVERED)
    assert sum(map(len, cells)) - uncovered == covered


@given(partitions())
def test_merged_cells_hold_the_same_offsets(made: Made) -> None:
    cells = made.fill()
    merged = merge_cells(cells)
    assert sum(map(len, merged)) == len(made.extent)
    for kind in get_args(Kind):
        assert sum(cell.counts.get(kind, 0) for cell in merged) == sum(cell.counts.get(kind, 0) for cell in cells)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_partition_has_at_most_200_cells(first: int, loaded: int, waiting: int) -> None:
    extent = Extent(0, first, first + loaded, first + loaded // 2, first + loaded + waiting)
    assert len(cut_cells(extent)) <= MOST_CELLS


def test_gaps_below_the_start_of_the_log_are_expired() -> None:
    extent = Extent(0, 0, 100, 40, 130)
    starts = cut_cells(extent, [0])
    cells = fill_cells(extent, starts, fit_cells(extent, starts, ()), (), {})
    assert [(cell.from_offset, cell.until_offset, cell.kind) for cell in cells] == [
        (0, 40, "expired"),
        (40, 100, "gap"),
        (100, 130, "not_loaded"),
    ]


def test_a_range_over_several_cells_shows_quarantined_records_where_they_are() -> None:
    extent = Extent(0, 0, 100, 0, 100)
    starts = cut_cells(extent, [0, 25, 50, 75])
    fitted = fit_cells(extent, starts, [_place(starts, 0, 100, 2, 0, 7)])
    cells = fill_cells(extent, starts, fitted, (), {0: {3: 2}})
    assert [cell.kind for cell in cells] == ["published", "published", "quarantined", "published"]
    assert cells[2].describe() == "2 quarantined, 23 published; load 7"
    assert [len(cell) for cell in merge_cells(cells)] == [50, 25, 25]


def test_a_bound_moves_to_the_end_of_a_range_that_lies_across_it() -> None:
    extent = Extent(0, 0, 100, 20, 100)
    starts = cut_cells(extent, [0, 50])
    assert starts == [0, 20, 50]
    sums = [_add_up([_place(starts, 0, 10, 0, 0, 1), _place(starts, 15, 30, 0, 0, 2)])]
    fitted = fit_cells(extent, starts, sums)
    cells = fill_cells(extent, starts, fitted, (), {})
    assert [(cell.from_offset, cell.until_offset, cell.counts) for cell in cells] == [
        (0, 30, {"published": 25, "expired": 5}),
        (30, 50, {"gap": 20}),
        (50, 100, {"gap": 50}),
    ]
