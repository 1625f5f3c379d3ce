"""Which ranges a backfill loads, or why it is refused: pure decisions over the log and the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.backfill.request import Span
from penstock.errors import name_ranges
from penstock.model.ranges import Held, Range, intersect_ranges, subtract_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.model.log import PartitionLog


@dataclass(frozen=True, slots=True)
class Known:
    """What the log and the ledger say at one moment."""

    log: Mapping[int, PartitionLog]
    positions: Mapping[int, int]
    covered: tuple[Held, ...]
    planned: tuple[Held, ...]
    gaps: tuple[Range, ...]
    origins: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """The ranges to load, what they replace, and what of the gaps is another backfill's or no longer in the log."""

    ranges: tuple[Range, ...]
    replaced: tuple[Held, ...] = ()
    planned: tuple[Held, ...] = ()
    gone: tuple[Range, ...] = ()


def find_refusals(spans: Sequence[Span], known: Known, *, replace: bool) -> list[str]:
    """Everything that forbids to load these spans, all at once."""
    told = [refusal for span in spans if (refusal := _refuse_span(span, known))]
    if told:
        return told
    ranges = [Range(span.partition, span.from_offset, span.until_offset) for span in spans]
    return [*_refuse_twice(ranges), *_refuse_held(ranges, known, replace=replace)]


def _refuse_span(span: Span, known: Known) -> str | None:  # noqa: PLR0911 - a list of reasons
    log, position = known.log.get(span.partition), known.positions.get(span.partition)
    if log is None:
        there = name_ranges(sorted(known.log), between=", ")
        return f"{span}: there is no such partition; the topic has {there}"
    if span.from_offset == span.until_offset:
        return f"{span}: nothing is in it"
    if span.from_offset > span.until_offset:
        return f"{span}: its end is before its start"
    if span.until_offset > log.end:
        return f"{span}: the log ends at {log.end}"
    if span.from_offset < log.start:
        left = f"; of it, [{log.start}, {span.until_offset}) is still there" if span.until_offset > log.start else ""
        return f"{span}: the log starts at {log.start} now{left}"
    if span.from_offset < known.origins.get(span.partition, 0):
        return f"{span}: what lies below {known.origins[span.partition]} was loaded before the log was adopted"
    if position is None:
        return f"{span}: no load has looked at the partition yet; run the pipeline first"
    if span.until_offset > position:
        return f"{span}: from {position} on the live loads bring it"
    return None


def _refuse_twice(ranges: Sequence[Range]) -> Iterator[str]:
    for place, range_ in enumerate(ranges):
        if intersect_ranges([range_], list(ranges[:place])):
            yield f"{range_}: some of it is named twice"


def _refuse_held(ranges: Sequence[Range], known: Known, *, replace: bool) -> Iterator[str]:
    for held in find_overlaps(ranges, known.planned):
        ways = f"--resume {held.backfill} finishes it, `penstock discard {held.load} --why …` gives it up"
        yield f"{held.range}: load {held.load} of backfill {held.backfill} is about to load it; {ways}"
    if not replace:
        for held in find_overlaps(ranges, known.covered):
            yield f"{held.range}: load {held.load} has brought it; ask for all gaps, or to replace it"


def find_overlaps(ranges: Sequence[Range], held: Sequence[Held]) -> list[Held]:
    """What loads hold of these ranges."""
    return [
        Held(part, each.load, each.backfill) for each in held for part in intersect_ranges(list(ranges), [each.range])
    ]


def choose_spans(spans: Sequence[Span], known: Known, *, replace: bool) -> Choice:
    """Choose spans that were not refused."""
    ranges = tuple(sorted(Range(span.partition, span.from_offset, span.until_offset) for span in spans))
    return Choice(ranges, tuple(find_overlaps(ranges, known.covered)) if replace else ())


def choose_gaps(known: Known) -> Choice:
    """Choose what lies below the positions and is not in the table, as far as the log holds it and nobody loads it."""
    there = [Range(number, log.start, max(log.start, log.end)) for number, log in sorted(known.log.items())]
    free = subtract_ranges(list(known.gaps), [held.range for held in known.planned])
    planned = tuple(find_overlaps(known.gaps, known.planned))
    return Choice(tuple(intersect_ranges(free, there)), planned=planned, gone=tuple(subtract_ranges(free, there)))


def spans_of_time(starts: Mapping[int, int], ends: Mapping[int, int], known: Known) -> list[Span]:
    """The spans between two times, below the positions.

    A partition without a record from the start of the time on has none, and nothing else of it is loaded instead. One
    without a record from the end of the time on is loaded up to its position.
    """
    found = []
    for partition, position in sorted(known.positions.items()):
        start, until = starts.get(partition, position), min(position, ends.get(partition, position))
        if start < until:
            found.append(Span(partition, start, until))
    return found
