"""Which neighbouring leaves of a target to merge: by levels, as a log-structured store does.

Ten leaves of one level become one leaf of the next level. So n loads leave at most 9 leaves a level, on log10(n) + 1
levels, and a row is copied once a level. The level follows from the number of loads that a leaf has ever held. That
number never shrinks, so the level needs no storage.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FAN_IN = 10
# A larger merge would save little, because such leaves are few, and would copy for hours.
MAX_BYTES = 100 * 2**30


@dataclass(frozen=True, slots=True, order=True)
class Leaf:
    """A partition of the target, with the rows of the loads `from_load` up to, but not including, `until_load`.

    `loads` is the number of these loads that were ever published. It is 0 for a leaf that Penstock did not create.
    """

    from_load: int
    until_load: int
    loads: int
    size: int = 0
    schema: str = ""
    name: str = ""

    @property
    def level(self) -> int:
        """The level: 0 for up to 9 loads, 1 for up to 99, and so on."""
        return _log(self.loads)


def _log(count: int) -> int:
    return 0 if count < FAN_IN else 1 + _log(count // FAN_IN)


def plan_merges(
    leaves: Iterable[Leaf], unfinished: Iterable[int], max_bytes: int = MAX_BYTES
) -> list[tuple[Leaf, ...]]:
    """Choose the groups of neighbours to merge next; an empty list if the leaves are few enough.

    No load of `unfinished` lies between two leaves of a group, because the load could not be attached later.
    """
    return [
        group
        for run in _split_runs(sorted(leaves), sorted(unfinished))
        for segment in _split_by_level(run)
        for group in _choose_groups(segment, max_bytes)
    ]


def make_merged_leaf(leaves: Sequence[Leaf]) -> Leaf:
    """Describe the leaf that a merge of neighbours gives. Loads between them have no rows in the target."""
    return Leaf(
        leaves[0].from_load,
        leaves[-1].until_load,
        sum(leaf.loads for leaf in leaves),
        sum(leaf.size for leaf in leaves),
    )


def predict_merges(
    leaves: Iterable[Leaf], unfinished: Sequence[int], max_bytes: int = MAX_BYTES
) -> tuple[list[Leaf], int, int]:
    """Predict all merges: the leaves that remain, the number of merges, and the number of bytes that are copied."""
    left, merges, copied = sorted(leaves), 0, 0
    while groups := plan_merges(left, unfinished, max_bytes):
        merged = [make_merged_leaf(group) for group in groups]
        replaced = {leaf for group in groups for leaf in group}
        left = sorted([*merged, *(leaf for leaf in left if leaf not in replaced)])
        merges, copied = merges + len(groups), copied + sum(leaf.size for leaf in merged)
    return left, merges, copied


def _split_runs(leaves: Sequence[Leaf], unfinished: Sequence[int]) -> Iterator[list[Leaf]]:
    """Split into runs of leaves that may be merged: no unfinished load between them, and no leaf of unknown loads."""
    run: list[Leaf] = []
    for leaf in leaves:
        if run and (not leaf.loads or _has_number_between(unfinished, run[-1].until_load, leaf.from_load)):
            yield run
            run = []
        if leaf.loads:
            run.append(leaf)
    if run:
        yield run


def _has_number_between(numbers: Sequence[int], start: int, until: int) -> bool:
    return bisect_left(numbers, start) < bisect_left(numbers, until)


def _split_by_level(run: Sequence[Leaf]) -> Iterator[list[Leaf]]:
    """Split a run into segments of one effective level.

    Effective level = the highest level of this leaf and of all later ones, so small leaves between big ones are merged
    with them. New leaves are added at the end, so a small leaf before a big one never gets neighbours of its own size.
    """
    effective_levels = list(accumulate((leaf.level for leaf in reversed(run)), max))[::-1]
    for _, places in groupby(range(len(run)), key=effective_levels.__getitem__):
        yield [run[place] for place in places]


def _choose_groups(segment: Sequence[Leaf], max_bytes: int) -> Iterator[tuple[Leaf, ...]]:
    """Group ten neighbours each, from the oldest on; skip a leaf whose group would be too large."""
    start = 0
    while start + FAN_IN <= len(segment):
        group = tuple(segment[start : start + FAN_IN])
        fits = sum(leaf.size for leaf in group) <= max_bytes
        if fits:
            yield group
        start += FAN_IN if fits else 1
