"""The coverage map of a partition: its offsets as at most 200 cells, and their kinds. Pure decisions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Kind = Literal[
    "published",
    "quarantined",
    "hole",
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
    "hole",
)
# An unexplained hole is counted as one of these before.
COUNTED: tuple[Kind, ...] = ("hole", "published", "quarantined")
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
    counts: Counter[Kind] = field(default_factory=Counter)
    first_load: int | None = None
    last_load: int | None = None
    loads: int = 0
    is_estimate: bool = False

    def __len__(self) -> int:
        return self.until_offset - self.from_offset

    @property
    def kind(self) -> Kind:
        """The kind that needs the most attention."""
        return next((kind for kind in ATTENTION if self.counts[kind]), "not_loaded")

    @property
    def load(self) -> int | None:
        """The load, if the offsets belong to one."""
        return self.first_load if self.first_load == self.last_load else None

    @property
    def is_pure(self) -> bool:
        """Whether all of its offsets are of one kind and belong to one load at most."""
        return self.counts[self.kind] == len(self) and self.loads <= 1

    def describe(self) -> str:
        """The counts in words."""
        about = "about " if self.is_estimate else ""
        named = [f"{about}{self.counts[kind]:,} {WORDS.get(kind, kind)}" for kind in ATTENTION if self.counts[kind]]
        loads = f"; load {self.load}" if self.loads == 1 and self.load else f"; {self.loads:,} loads"
        return ", ".join(named) + (loads if self.loads else "")

    def add_load(self, first: int, last: int, ranges: int) -> None:
        """Count the loads of some of its offsets."""
        self.first_load = first if self.first_load is None else min(self.first_load, first)
        self.last_load = last if self.last_load is None else max(self.last_load, last)
        self.loads = 1 if self.first_load == self.last_load else max(2, self.loads + ranges)


@dataclass(frozen=True, slots=True)
class Covered:
    """Covered offsets of a partition: ranges in one cell, or one range over several cells."""

    first_cell: int
    last_cell: int
    from_offset: int
    until_offset: int
    offsets: int
    rows: int
    quarantined: int
    holes: int
    first_load: int
    last_load: int
    ranges: int


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
    starts: Sequence[int],
    covered: Iterable[Covered],
    reasons: Iterable[Reason],
    placed: Mapping[int, Mapping[int, int]],
) -> list[Cell]:
    """Fill the cells of a partition. `placed` has the quarantined records of ranges by first offset and by cell."""
    if not starts:
        return []
    ends = [*starts[1:], extent.end]
    cells = [Cell(start, end) for start, end in zip(starts, ends, strict=True)]
    for each in covered:
        _add_covered(cells, each, placed.get(each.from_offset))
    for reason in reasons:
        for cell, offsets in _overlap(cells, reason):
            if reason.kind == "unexplained_hole":
                _explain_no_hole(cell, offsets)
                continue
            cell.counts[reason.kind] += offsets
            if reason.load is not None:
                cell.add_load(reason.load, reason.load, 1)
    for cell in cells:
        rest = len(cell) - cell.counts.total()
        cell.counts[_name_rest(extent, cell)] += rest
    return cells


def _add_covered(cells: Sequence[Cell], covered: Covered, placed: Mapping[int, int] | None) -> None:
    first, last = covered.first_cell - 1, covered.last_cell - 1
    if first == last:
        _count(cells[first], covered.offsets, covered.quarantined, covered.holes)
        cells[first].add_load(covered.first_load, covered.last_load, covered.ranges)
        return
    for number in range(first, last + 1):
        cell = cells[number]
        start, end = max(cell.from_offset, covered.from_offset), min(cell.until_offset, covered.until_offset)
        share = [
            total * (end - covered.from_offset) // covered.offsets
            - total * (start - covered.from_offset) // covered.offsets
            for total in (covered.quarantined, covered.holes)
        ]
        quarantined = share[0] if placed is None else placed.get(number + 1, 0)
        quarantined = min(quarantined, end - start)
        _count(cell, end - start, quarantined, min(share[1], end - start - quarantined))
        cell.add_load(covered.first_load, covered.last_load, 1)
        cell.is_estimate = cell.is_estimate or bool(covered.holes) or (bool(covered.quarantined) and placed is None)


def _count(cell: Cell, offsets: int, quarantined: int, holes: int) -> None:
    cell.counts["quarantined"] += quarantined
    cell.counts["hole"] += holes
    cell.counts["published"] += offsets - quarantined - holes


def _explain_no_hole(cell: Cell, offsets: int) -> None:
    """Count unexplained holes. Holes of a range of several cells are shared out: a cell may have fewer than these."""
    for source in COUNTED:
        taken = min(offsets, cell.counts[source])
        cell.counts[source] -= taken
        cell.counts["unexplained_hole"] += taken
        offsets -= taken


def _overlap(cells: Sequence[Cell], reason: Reason) -> Iterator[tuple[Cell, int]]:
    starts = [cell.from_offset for cell in cells]
    first = max(0, bisect_right(starts, reason.from_offset) - 1)
    for cell in cells[first : bisect_left(starts, reason.until_offset)]:
        offsets = min(cell.until_offset, reason.until_offset) - max(cell.from_offset, reason.from_offset)
        if offsets > 0:
            yield cell, offsets


def _name_rest(extent: Extent, cell: Cell) -> Kind:
    """The kind of offsets that nothing covers and that have no reason."""
    if extent.log_start is not None and cell.until_offset <= extent.log_start:
        return "expired"
    return "gap" if cell.until_offset <= extent.position else "not_loaded"


def merge_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Merge neighbouring cells that hold one kind of one load, so that a few big loads are a few cells."""
    merged: list[Cell] = []
    for cell in cells:
        before = merged[-1] if merged else None
        if before and before.is_pure and cell.is_pure and (before.kind, before.load) == (cell.kind, cell.load):
            merged[-1] = replace(before, until_offset=cell.until_offset, counts=before.counts + cell.counts)
        else:
            merged.append(cell)
    return merged
