"""The ranges that a backfill loads, or the reasons to refuse it: pure decisions over the log and the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.backfill.request import Span
from penstock.errors import name_ranges
from penstock.model.ranges import LoadRange, Range, intersect_ranges, subtract_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.model.log import PartitionLog


@dataclass(frozen=True, slots=True)
class Known:
    """The state of the log and of the ledger at one moment."""

    log: Mapping[int, PartitionLog]
    positions: Mapping[int, int]
    covered: tuple[LoadRange, ...]
    planned: tuple[LoadRange, ...]
    gaps: tuple[Range, ...]
    origins: Mapping[int, int] = field(default_factory=dict)
    dropped: tuple[LoadRange, ...] = ()  # covered, but their rows are past keep_rows_days


@dataclass(frozen=True, slots=True)
class Choice:
    """The ranges to load and to replace, and the gaps that other loads have planned or the log has deleted."""

    ranges: tuple[Range, ...]
    replaced: tuple[LoadRange, ...] = ()
    planned: tuple[LoadRange, ...] = ()
    deleted: tuple[Range, ...] = ()


def find_refusals(spans: Sequence[Span], known: Known, *, replace: bool) -> list[str]:
    """Find all reasons to refuse these spans."""
    refusals = [refusal for span in spans if (refusal := _refuse_span(span, known))]
    if refusals:
        return refusals
    ranges = [Range(span.partition, span.from_offset, span.until_offset) for span in spans]
    return [*_refuse_repeated(ranges), *_refuse_overlaps(ranges, known, replace=replace)]


def _refuse_span(span: Span, known: Known) -> str | None:  # noqa: PLR0911 - a list of reasons
    log, position = known.log.get(span.partition), known.positions.get(span.partition)
    if log is None:
        existing = name_ranges(sorted(known.log), between=", ")
        return f"{span}: there is no such partition; the topic has {existing}"
    if span.from_offset == span.until_offset:
        return f"{span}: the span is empty"
    if span.from_offset > span.until_offset:
        return f"{span}: its end is before its start"
    if span.until_offset > log.end:
        return f"{span}: the log ends at {log.end}"
    if span.from_offset < log.start:
        left = f"; [{log.start}, {span.until_offset}) is still there" if span.until_offset > log.start else ""
        return f"{span}: the log starts at {log.start} now{left}"
    if span.from_offset < known.origins.get(span.partition, 0):
        return f"{span}: offsets below {known.origins[span.partition]} belong to the log before the adoption"
    if position is None:
        return f"{span}: no load has read the partition yet; run the pipeline first"
    if span.until_offset > position:
        return f"{span}: live loads read the offsets from {position} on"
    return None


def _refuse_repeated(ranges: Sequence[Range]) -> Iterator[str]:
    for place, range_ in enumerate(ranges):
        if intersect_ranges([range_], list(ranges[:place])):
            yield f"{range_}: some of these offsets are given twice"


def _refuse_overlaps(ranges: Sequence[Range], known: Known, *, replace: bool) -> Iterator[str]:
    for other in find_overlaps(ranges, known.planned):
        ways = f"--resume {other.backfill} finishes it, `penstock discard {other.load} --why …` discards it"
        yield f"{other.range}: load {other.load} of backfill {other.backfill} is about to load it; {ways}"
    if replace:
        for other in find_overlaps(ranges, known.dropped):
            yield f"{other.range}: the rows of load {other.load} were dropped (keep_rows_days) and cannot be replaced"
    else:
        for other in find_overlaps(ranges, known.covered):
            yield f"{other.range}: load {other.load} has published it; choose all gaps, or replace the range"


def find_overlaps(ranges: Sequence[Range], load_ranges: Sequence[LoadRange]) -> list[LoadRange]:
    """The parts of these ranges that belong to loads."""
    return [
        LoadRange(part, each.load, each.backfill)
        for each in load_ranges
        for part in intersect_ranges(list(ranges), [each.range])
    ]


def choose_spans(spans: Sequence[Span], known: Known, *, replace: bool) -> Choice:
    """Choose spans that were not refused."""
    ranges = tuple(sorted(Range(span.partition, span.from_offset, span.until_offset) for span in spans))
    return Choice(ranges, tuple(find_overlaps(ranges, known.covered)) if replace else ())


def choose_gaps(known: Known) -> Choice:
    """Choose the gaps that the log still holds and that no unfinished load has planned."""
    in_log = [Range(number, log.start, max(log.start, log.end)) for number, log in sorted(known.log.items())]
    free = subtract_ranges(list(known.gaps), [each.range for each in known.planned])
    planned = tuple(find_overlaps(known.gaps, known.planned))
    return Choice(tuple(intersect_ranges(free, in_log)), planned=planned, deleted=tuple(subtract_ranges(free, in_log)))


def choose_spans_of_time(starts: Mapping[int, int], ends: Mapping[int, int], known: Known) -> list[Span]:
    """The spans between two times, below the positions.

    A partition without a record from the first time on has no span. A partition without a record from the second time
    on has a span up to its position.
    """
    found = []
    for partition, position in sorted(known.positions.items()):
        start, until = starts.get(partition, position), min(position, ends.get(partition, position))
        if start < until:
            found.append(Span(partition, start, until))
    return found
