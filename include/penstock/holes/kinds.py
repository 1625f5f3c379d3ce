"""The kind of each hole: pure decisions over what the log holds now.

- A transaction marker is known by its batch. An aborted record is known by the list of aborted transactions that Kafka
  sends with its batch, on a compacted topic too, until compaction removes it.
- Compaction leaves at most a batch with fewer records than offsets, and often nothing. So `compacted` says only that
  the topic is compacted and that the log holds nothing there. A record that the log held during the load, and that the
  load missed, would look the same.
- On a topic that is not compacted, records disappear only below the log's start. So a hole that is neither a marker nor
  an aborted record is unexplained there, and so is every hole at which the log holds a record.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from penstock.model.log import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.model.log import Content

Kind = Literal["aborted", "marker", "compacted", "unexplained", "gone"]
KINDS: tuple[Kind, ...] = get_args(Kind)
HOLDS_A_RECORD = "the log holds a record there"
NO_BATCH = "no batch of the log holds the offset, and the topic is not compacted"
POLICY_UNKNOWN = "no batch of the log holds the offset, and Kafka does not show whether the topic is compacted"
EXPLAINED: dict[Content, Kind] = {"aborted": "aborted", "marker": "marker", "removed": "compacted", "gone": "gone"}
# Only the first unexplained ranges of a stretch are kept, because so many of them have one cause. All are counted.
MOST_RANGES = 100


@dataclass(frozen=True, slots=True)
class Hole:
    """Neighbouring offsets without a row: from `from_offset` up to, and without, `until_offset`."""

    from_offset: int
    until_offset: int

    def __len__(self) -> int:
        return self.until_offset - self.from_offset


@dataclass(frozen=True, slots=True)
class Unexplained:
    """Holes that nothing in the log explains, and the reason."""

    from_offset: int
    until_offset: int
    why: str

    def __len__(self) -> int:
        return self.until_offset - self.from_offset


@dataclass(slots=True)
class Naming:
    """The number of holes of each kind, and the unexplained ranges. From `unread` on the log holds nothing yet."""

    counts: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    unexplained: list[Unexplained] = field(default_factory=list)
    unread: int | None = None


def find_kinds(read_spans: Callable[[int], Sequence[Span]], holes: Iterable[Hole], *, compacted: bool | None) -> Naming:
    """Find the kinds of holes in the order of their offsets. `compacted` is None if Kafka does not show the policy.

    `read_spans` describes the log from an offset on, as far as one answer reaches; it returns nothing at the log's end.
    """
    naming = Naming()
    for piece in _split(read_spans, holes):
        if piece.content == "ahead":
            naming.unread = piece.from_offset
            break
        kind, why = _explain(piece.content, compacted=compacted)
        naming.counts[kind] += len(piece)
        if kind == "unexplained":
            _add(naming.unexplained, Unexplained(piece.from_offset, piece.until_offset, why))
    return naming


def _split(read_spans: Callable[[int], Sequence[Span]], holes: Iterable[Hole]) -> Iterator[Span]:
    """Split holes wherever the content of the log changes."""
    seen: deque[Span] = deque()
    for hole in holes:
        at = hole.from_offset
        while at < hole.until_offset:
            while seen and seen[0].until_offset <= at:
                seen.popleft()
            if not seen:
                seen.extend(read_spans(at) or [Span(at, hole.until_offset, "ahead")])
            until = min(seen[0].until_offset, hole.until_offset)
            yield Span(at, until, seen[0].content)
            at = until


def _explain(content: Content, *, compacted: bool | None) -> tuple[Kind, str]:
    if content == "record":
        return "unexplained", HOLDS_A_RECORD
    if content != "absent":
        return EXPLAINED[content], ""
    if compacted:
        return "compacted", ""
    return "unexplained", POLICY_UNKNOWN if compacted is None else NO_BATCH


def _add(ranges: list[Unexplained], found: Unexplained) -> None:
    """Add a range to a list; it is joined with the last range if they touch and have one reason."""
    last = ranges[-1] if ranges else None
    if last and (last.until_offset, last.why) == (found.from_offset, found.why):
        ranges[-1] = Unexplained(last.from_offset, found.until_offset, found.why)
    elif len(ranges) < MOST_RANGES:
        ranges.append(found)
