"""Which neighbouring leaves of a target to merge: by levels, as a log-structured store does.

Ten leaves of one level become one of the next. So n loads leave at most 9 leaves a level, of log10(n) + 1 levels, and a
row is copied once a level. The level follows from how many loads a leaf has ever held, which never shrinks: nothing has
to be remembered.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FAN_IN = 10
# What is bigger gains nothing by being merged, and would be copied for hours.
MOST_BYTES = 100 * 2**30


@dataclass(frozen=True, slots=True, order=True)
class Leaf:
    """A partition of the target: the loads from `from_load` up to, and without, `until_load` have their rows in it.

    `loads` counts those that the ledger knows to have been published, ever; of a leaf with none Penstock knows nothing.
    """

    from_load: int
    until_load: int
    loads: int
    size: int = 0
    schema: str = ""
    name: str = ""

    @property
    def level(self) -> int:
        """0 for up to nine loads, 1 for up to 99, and so on."""
        return _log(self.loads)


def _log(count: int) -> int:
    return 0 if count < FAN_IN else 1 + _log(count // FAN_IN)


def plan_merges(leaves: Iterable[Leaf], unfinished: Iterable[int], most: int = MOST_BYTES) -> list[tuple[Leaf, ...]]:
    """Choose the groups of neighbours to merge next; none if the leaves are few enough.

    Between two leaves that are merged lies no load of `unfinished`: it could not be attached later.
    """
    return [
        group
        for run in _split(sorted(leaves), sorted(unfinished))
        for segment in _level(run)
        for group in _choose(segment, most)
    ]


def join(leaves: Sequence[Leaf]) -> Leaf:
    """What a merge makes of neighbours; what lies between them was never published, or is no more."""
    return Leaf(
        leaves[0].from_load,
        leaves[-1].until_load,
        sum(leaf.loads for leaf in leaves),
        sum(leaf.size for leaf in leaves),
    )


def foresee(leaves: Iterable[Leaf], unfinished: Sequence[int], most: int = MOST_BYTES) -> tuple[list[Leaf], int, int]:
    """Tell where merging would end: the leaves that remain, how many merges it takes, and how many bytes are copied."""
    left, merges, copied = sorted(leaves), 0, 0
    while groups := plan_merges(left, unfinished, most):
        merged = [join(group) for group in groups]
        gone = {leaf for group in groups for leaf in group}
        left = sorted([*merged, *(leaf for leaf in left if leaf not in gone)])
        merges, copied = merges + len(groups), copied + sum(leaf.size for leaf in merged)
    return left, merges, copied


def _split(leaves: Sequence[Leaf], unfinished: Sequence[int]) -> Iterator[list[Leaf]]:
    """Runs of leaves that may become one: no unfinished load between them, and no leaf of loads that nobody knows."""
    run: list[Leaf] = []
    for leaf in leaves:
        if run and (not leaf.loads or _holds(unfinished, run[-1].until_load, leaf.from_load)):
            yield run
            run = []
        if leaf.loads:
            run.append(leaf)
    if run:
        yield run


def _holds(numbers: Sequence[int], start: int, until: int) -> bool:
    return bisect_left(numbers, start) < bisect_left(numbers, until)


def _level(run: Sequence[Leaf]) -> Iterator[list[Leaf]]:
    """Segments of one level. A leaf counts as high as the highest after it: small ones between big ones go with those.

    New leaves come behind the others. What lies before a bigger one has none of its own size to wait for.
    """
    heights = list(accumulate((leaf.level for leaf in reversed(run)), max))[::-1]
    for _, places in groupby(range(len(run)), key=heights.__getitem__):
        yield [run[place] for place in places]


def _choose(segment: Sequence[Leaf], most: int) -> Iterator[tuple[Leaf, ...]]:
    """Each ten neighbours from the oldest on, unless they are too big together."""
    start = 0
    while start + FAN_IN <= len(segment):
        group = tuple(segment[start : start + FAN_IN])
        fits = sum(leaf.size for leaf in group) <= most
        if fits:
            yield group
        start += FAN_IN if fits else 1
