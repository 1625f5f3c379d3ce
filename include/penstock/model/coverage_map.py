"""The coverage map of a partition: its offsets as at most 200 cells, and their kinds. Pure decisions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Kind = Literal[
    "published",
    "quarantined",
    "hole",
    "filtered",
    "unexplained_hole",
    "lost",
    "gap",
    "rolled_back",
    "expired",
    "pending",
    "not_loaded",
]
MOST_CELLS = 200
# A cell shows the first of these kinds that it holds. A hole alone is shown only if the cell holds nothing else.
ATTENTION: tuple[Kind, ...] = (
    "unexplained_hole",
    "lost",
    "gap",
    "rolled_back",
    "expired",
    "pending",
    "quarantined",
    "published",
    "not_loaded",
    "filtered",
    "hole",
)
# An unexplained hole is counted as one of these before.
COUNTED: tuple[Kind, ...] = ("hole", "published", "quarantined", "filtered")
WORDS = {"not_loaded": "not loaded", "rolled_back": "rolled back", "unexplained_hole": "unexplained holes"}


@dataclass(frozen=True, slots=True)
class Extent:
    """A partition: the first offset it accounts for, its position, and the log at the last sample."""

    partition: int
    first: int
    position: int
    log_start: int | None
    end: int

    def __len__(self) -> int:
        return self.end - self.first


@dataclass(slots=True)
class Cell:
    """Neighbouring offsets. `counts` has each of them once; the holes of a range of several cells are shared out."""

    from_offset: int
    until_offset: int
    counts: dict[Kind, int] = field(default_factory=dict)
    first_load: int | None = None
    last_load: int | None = None
    loads: int = 0
    is_estimate: bool = False

    def __len__(self) -> int:
        return self.until_offset - self.from_offset

    @property
    def kind(self) -> Kind:
        """The kind that needs the most attention."""
        return next((kind for kind in ATTENTION if self.counts.get(kind)), "not_loaded")

    @property
    def load(self) -> int | None:
        """The load, if the offsets belong to one."""
        return self.first_load if self.first_load == self.last_load else None

    @property
    def is_pure(self) -> bool:
        """Whether all of its offsets are of one kind and belong to one load at most."""
        return self.loads <= 1 and self.counts.get(self.kind) == len(self)

    def describe(self) -> str:
        """The counts in words."""
        about = "about " if self.is_estimate else ""
        counts = [(self.counts.get(kind, 0), WORDS.get(kind, kind)) for kind in ATTENTION]
        named = [f"{about}{count:,} {word}" for count, word in counts if count]
        loads = f"; load {self.load}" if self.loads == 1 and self.load else f"; {self.loads:,} loads"
        return ", ".join(named) + (loads if self.loads else "")

    def add(self, kind: Kind, offsets: int) -> None:
        """Count offsets of a kind."""
        if offsets:
            self.counts[kind] = self.counts.get(kind, 0) + offsets

    def add_load(self, first: int, last: int, ranges: int) -> None:
        """Count the loads of some of its offsets."""
        self.first_load = first if self.first_load is None else min(self.first_load, first)
        self.last_load = last if self.last_load is None else max(self.last_load, last)
        self.loads = 1 if self.first_load == self.last_load else max(2, self.loads + ranges)


@dataclass(frozen=True, slots=True)
class Sums:
    """The covered ranges of a partition that begin in one cell, counted from 1."""

    cell: int
    from_offset: int
    until_offset: int
    offsets: int
    rows: int
    quarantined: int
    holes: int
    first_load: int
    last_load: int
    ranges: int
    filtered: int = 0

    def without(self, range_: Sums) -> Sums:
        """The same without one of its ranges."""
        return replace(
            self,
            until_offset=range_.from_offset,
            offsets=self.offsets - range_.offsets,
            rows=self.rows - range_.rows,
            quarantined=self.quarantined - range_.quarantined,
            holes=self.holes - range_.holes,
            filtered=self.filtered - range_.filtered,
            ranges=self.ranges - range_.ranges,
        )


@dataclass(frozen=True, slots=True)
class Fitted:
    """Cells whose bounds were moved to the bounds of ranges: `wide` ranges lie in several cells, `narrow` ones in one.

    `unknown` are ranges of several cells of which only the end is known: the cell, and an offset that they hold.
    """

    starts: tuple[int, ...]
    narrow: tuple[Sums, ...]
    wide: tuple[Sums, ...]
    unknown: tuple[tuple[int, int], ...]


def fit_cells(extent: Extent, starts: Sequence[int], sums: Iterable[Sums]) -> Fitted:
    """Move the bounds of cells to the ends of ranges that lie across them by less than a cell."""
    moved = list(starts)
    ends = [*starts[1:], extent.end]
    narrow, wide, unknown = [], [], []
    for each in sums:
        end = ends[each.cell - 1]
        if each.until_offset <= end:
            narrow.append(each)
        elif each.ranges == 1:
            wide.append(each)
        elif each.cell < len(starts) and each.until_offset < ends[each.cell]:
            moved[each.cell] = each.until_offset
            narrow.append(each)
        else:
            narrow.append(each)
            unknown.append((each.cell, end))
    return Fitted(tuple(moved), tuple(narrow), tuple(wide), tuple(unknown))


def add_known(fitted: Fitted, found: Iterable[Sums]) -> Fitted:
    """Take the ranges that were unknown out of the sums of the cells in which they begin."""
    by_cell = {each.cell: each for each in found}
    narrow = (each.without(by_cell[each.cell]) if each.cell in by_cell else each for each in fitted.narrow)
    return replace(fitted, narrow=tuple(narrow), wide=(*fitted.wide, *by_cell.values()), unknown=())


@dataclass(frozen=True, slots=True)
class Reason:
    """Offsets with a kind of their own; an unexplained hole is covered, the other kinds are not."""

    kind: Literal["lost", "pending", "rolled_back", "unexplained_hole"]
    from_offset: int
    until_offset: int
    load: int | None


def cut_cells(extent: Extent, wanted: Sequence[int] | None = None) -> list[int]:
    """The first offsets of the cells: equal shares of the offsets, or the wanted ones.

    The position and the log's start begin a cell, so that no cell holds offsets on both sides of them.
    """
    if not len(extent):
        return []
    if wanted is None:
        count = min(len(extent), MOST_CELLS - 2)
        wanted = [extent.first + len(extent) * number // count for number in range(count)]
    marks = (extent.position, extent.log_start)
    inside = {mark for mark in (*wanted, *marks) if mark is not None and extent.first < mark < extent.end}
    return [extent.first, *sorted(inside)]


def fill_cells(
    extent: Extent,
    wanted: Sequence[int],
    fitted: Fitted,
    reasons: Iterable[Reason],
    placed: Mapping[int, Mapping[int, int]],
) -> list[Cell]:
    """Fill the cells of a partition. `placed` has the quarantined records of wide ranges: by first offset, by cell."""
    if not wanted:
        return []
    ends = [*fitted.starts[1:], extent.end]
    cells = [Cell(start, end) for start, end in zip(fitted.starts, ends, strict=True)]
    for each in fitted.narrow:
        cell = cells[each.cell - 1]
        _count(cell, each.offsets, each.quarantined, each.holes, each.filtered)
        cell.add_load(each.first_load, each.last_load, each.ranges)
    for each in fitted.wide:
        _share_out(cells, fitted.starts, each, placed.get(each.from_offset))
    for reason in reasons:
        for cell, offsets in _overlap(cells, fitted.starts, reason):
            if reason.kind == "unexplained_hole":
                _explain_no_hole(cell, offsets)
                continue
            cell.add(reason.kind, offsets)
            if reason.load is not None:
                cell.add_load(reason.load, reason.load, 1)
    # A bound that was moved has covered offsets before it: the others of the cell lie before the wanted bound.
    for cell, end in zip(cells, [*wanted[1:], extent.end], strict=True):
        cell.add(_name_rest(extent, min(end, cell.until_offset)), len(cell) - sum(cell.counts.values()))
    return cells


def _share_out(cells: Sequence[Cell], starts: Sequence[int], wide: Sums, placed: Mapping[int, int] | None) -> None:
    """Share out a range of several cells by length; quarantined records go to the cells in which they were placed."""
    first = bisect_right(starts, wide.from_offset) - 1
    for number in range(first, bisect_left(starts, wide.until_offset)):
        cell = cells[number]
        start, end = max(cell.from_offset, wide.from_offset), min(cell.until_offset, wide.until_offset)
        share = [
            total * (end - wide.from_offset) // wide.offsets - total * (start - wide.from_offset) // wide.offsets
            for total in (wide.quarantined, wide.holes, wide.filtered)
        ]
        quarantined = min(share[0] if placed is None else placed.get(number + 1, 0), end - start)
        holes = min(share[1], end - start - quarantined)
        _count(cell, end - start, quarantined, holes, min(share[2], end - start - quarantined - holes))
        cell.add_load(wide.first_load, wide.last_load, 1)
        cell.is_estimate = (
            cell.is_estimate or bool(wide.holes or wide.filtered) or (bool(wide.quarantined) and placed is None)
        )


def _count(cell: Cell, offsets: int, quarantined: int, holes: int, filtered: int) -> None:
    cell.add("quarantined", quarantined)
    cell.add("hole", holes)
    cell.add("filtered", filtered)
    cell.add("published", offsets - quarantined - holes - filtered)


def _explain_no_hole(cell: Cell, offsets: int) -> None:
    """Count unexplained holes. Holes of a range of several cells are shared out: a cell may have fewer than these."""
    for source in COUNTED:
        taken = min(offsets, cell.counts.get(source, 0))
        if taken:
            cell.counts[source] -= taken
            cell.add("unexplained_hole", taken)
            offsets -= taken


def _overlap(cells: Sequence[Cell], starts: Sequence[int], reason: Reason) -> Iterator[tuple[Cell, int]]:
    first = max(0, bisect_right(starts, reason.from_offset) - 1)
    for cell in cells[first : bisect_left(starts, reason.until_offset)]:
        offsets = min(cell.until_offset, reason.until_offset) - max(cell.from_offset, reason.from_offset)
        if offsets > 0:
            yield cell, offsets


def _name_rest(extent: Extent, until_offset: int) -> Kind:
    """The kind of offsets that nothing covers and that have no reason."""
    if extent.log_start is not None and until_offset <= extent.log_start:
        return "expired"
    return "gap" if until_offset <= extent.position else "not_loaded"


def merge_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Merge neighbouring cells that hold one kind of one load, so that a few big loads are a few cells."""
    merged: list[Cell] = []
    for cell in cells:
        before = merged[-1] if merged else None
        if before and before.is_pure and cell.is_pure and (before.kind, before.load) == (cell.kind, cell.load):
            counts = {before.kind: len(before) + len(cell)}
            merged[-1] = replace(before, until_offset=cell.until_offset, counts=counts)
        else:
            merged.append(cell)
    return merged
