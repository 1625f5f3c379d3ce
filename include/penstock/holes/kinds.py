"""Which kind of hole each hole is: pure.

What can be known. A transaction marker is known by its batch, and an aborted record by the list of aborted transactions
that Kafka sends with it, on a compacted topic too, as long as compaction has not taken it. What compaction took leaves
at most a batch with fewer records than offsets, often nothing: `compacted` then says that the topic is compacted and
the log holds nothing there, not what it was. A record that stood there when the load read it, and that the load missed,
would look the same. On a topic that is not compacted nothing vanishes but from the log's start on: a hole that is
neither a marker nor an aborted record is unexplained there, and so is every hole at which the log holds a record.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from penstock.kafka.batches.spans import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.kafka.batches.spans import What

Kind = Literal["aborted", "marker", "compacted", "unexplained", "gone"]
KINDS: tuple[Kind, ...] = get_args(Kind)
HOLDS_A_RECORD = "the log holds a record there"
NO_BATCH = "no batch of the log holds the offset, and the topic is not compacted"
POLICY_UNKNOWN = "no batch of the log holds the offset, and Kafka does not tell whether the topic is compacted"
EXPLAINED: dict[What, Kind] = {"aborted": "aborted", "marker": "marker", "removed": "compacted", "gone": "gone"}
# Of more in one stretch only the number is kept: so many have one cause.
MOST_RANGES = 100


@dataclass(frozen=True, slots=True)
class Hole:
    """Offsets next to each other without a row: from `from_offset` up to, and without, `until_offset`."""

    from_offset: int
    until_offset: int

    def __len__(self) -> int:
        return self.until_offset - self.from_offset


@dataclass(frozen=True, slots=True)
class Unexplained:
    """Holes that nothing in the log explains, and why not."""

    from_offset: int
    until_offset: int
    why: str

    def __len__(self) -> int:
        return self.until_offset - self.from_offset


@dataclass(slots=True)
class Naming:
    """How many holes are of each kind, and which are unexplained. What begins at `unread` the log does not hold yet."""

    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    unexplained: list[Unexplained] = field(default_factory=list)
    unread: int | None = None


def name_holes_by(look: Callable[[int], Sequence[Span]], holes: Iterable[Hole], *, compacted: bool | None) -> Naming:
    """Name holes in the order of their offsets. `compacted` is None where Kafka does not tell the topic's policy.

    `look` says what the log holds from an offset on, as far as it knows at once; nothing at the log's end.
    """
    naming = Naming()
    for piece in _cut(look, holes):
        if piece.what == "ahead":
            naming.unread = piece.from_offset
            break
        kind, why = _explain(piece.what, compacted=compacted)
        naming.counts[kind] += len(piece)
        if kind == "unexplained":
            _note(naming.unexplained, Unexplained(piece.from_offset, piece.until_offset, why))
    return naming


def _cut(look: Callable[[int], Sequence[Span]], holes: Iterable[Hole]) -> Iterator[Span]:
    """Cut holes where what the log holds changes."""
    seen: deque[Span] = deque()
    for hole in holes:
        at = hole.from_offset
        while at < hole.until_offset:
            while seen and seen[0].until_offset <= at:
                seen.popleft()
            if not seen:
                seen.extend(look(at) or [Span(at, hole.until_offset, "ahead")])
            until = min(seen[0].until_offset, hole.until_offset)
            yield Span(at, until, seen[0].what)
            at = until


def _explain(what: What, *, compacted: bool | None) -> tuple[Kind, str]:
    if what == "record":
        return "unexplained", HOLDS_A_RECORD
    if what != "absent":
        return EXPLAINED[what], ""
    if compacted:
        return "compacted", ""
    return "unexplained", POLICY_UNKNOWN if compacted is None else NO_BATCH


def _note(noted: list[Unexplained], found: Unexplained) -> None:
    """Note a range, in one with the last if they touch."""
    last = noted[-1] if noted else None
    if last and (last.until_offset, last.why) == (found.from_offset, found.why):
        noted[-1] = Unexplained(last.from_offset, found.until_offset, found.why)
    elif len(noted) < MOST_RANGES:
        noted.append(found)
