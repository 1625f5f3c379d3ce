"""What a person asks a backfill to load: offsets, a time, or all gaps. Values only; what the log says comes later."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import advice
from penstock.errors import WrongUseError, name_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The ways of asking in a form, and which fields belong to each.
FIELDS_OF = {"all gaps": (), "offsets": ("offsets",), "time": ("from_time", "until_time")}
SPAN = re.compile(r"\s*([0-9]{1,9})\s*:\s*([0-9]{1,18})\s*-\s*([0-9]{1,18})\s*")


@dataclass(frozen=True, slots=True)
class Span:
    """What was asked of one partition, as it was written: it may be empty or reversed."""

    partition: int
    from_offset: int
    until_offset: int

    def __str__(self) -> str:
        return f"partition {self.partition} offsets [{self.from_offset}, {self.until_offset})"


@dataclass(frozen=True, slots=True)
class ByOffsets:
    """These offsets."""

    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return name_ranges(self.spans)


@dataclass(frozen=True, slots=True)
class ByTime:
    """In each partition, from the first record not older than `since` to the first not older than `until`."""

    since: datetime
    until: datetime | None

    def __str__(self) -> str:
        until = self.until.isoformat() if self.until else "where the live loads begin"
        return f"records from {self.since.isoformat()} until {until}"


@dataclass(frozen=True, slots=True)
class AllGaps:
    """Whatever lies below the positions and is not in the table."""

    def __str__(self) -> str:
        return "all gaps"


What: TypeAlias = ByOffsets | ByTime | AllGaps


@dataclass(frozen=True, slots=True)
class Asked:
    """What to load, by whom, and how."""

    what: What
    actor: str
    replace: bool = False
    offsets_per_load: int | None = None


def read_what(offsets: Sequence[str], since: datetime | None, until: datetime | None, *, gaps: bool) -> What:
    """Read what was asked; exactly one way of asking is allowed."""
    if bool(offsets) + (since is not None) + gaps != 1 or (until is not None and since is None):
        raise WrongUseError(
            "a backfill is asked for in one of three ways.",
            next_step=advice.GIVE_OFFSETS_OR_TIMES,
        )
    if gaps:
        return AllGaps()
    if since is not None:
        return _read_times(since, until)
    return ByOffsets(tuple(map(_read_span, offsets)))


def read_form(form: Mapping[str, Any]) -> What:
    """Read what a form asks for: `what` is one of FIELDS_OF, and the fields of the others are empty."""
    chosen = form["what"]
    others = [name for what, names in FIELDS_OF.items() if what != chosen for name in names if form[name]]
    if others:
        raise WrongUseError(
            f"`what` is {chosen}, and {', '.join(others)} is given too.",
            next_step=advice.CHOOSE_ONE_WAY,
        )
    since, until = (_read_time(form[name]) if form[name] else None for name in FIELDS_OF["time"])
    return read_what(form["offsets"] or [], since, until, gaps=chosen == "all gaps")


def _read_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise WrongUseError(f"{text[:100]!r} is no time.", next_step=advice.WRITE_TIME) from error


def _read_times(since: datetime, until: datetime | None) -> ByTime:
    # A time without a zone means another moment on another machine.
    if since.tzinfo is None or (until is not None and until.tzinfo is None):
        raise WrongUseError("a time has no zone.", next_step=advice.WRITE_TIME)
    # To Kafka, numbers below zero are no times.
    if since.timestamp() < 0:
        raise WrongUseError(f"the time {since.isoformat()} is before 1970.", next_step=advice.START_AT_1970)
    if until is not None and until <= since:
        raise WrongUseError(
            f"the time {until.isoformat()} to end at is not after {since.isoformat()}.", next_step=advice.SWAP_TIMES
        )
    return ByTime(since, until)


def _read_span(text: str) -> Span:
    found = SPAN.fullmatch(text)
    if found is None:
        raise WrongUseError(f"{text[:100]!r} names no offsets.", next_step=advice.WRITE_OFFSETS)
    return Span(*map(int, found.groups()))
