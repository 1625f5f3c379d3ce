"""The request for a backfill: offsets, a time, or all gaps. `plan.py` compares it with the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import advice
from penstock.errors import WrongUseError, name_ranges
from penstock.model.spans import Span, read_span
from penstock.model.times import read_time, require_zone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

__all__ = [
    "FIELDS_OF",
    "AllGaps",
    "ByOffsets",
    "ByTime",
    "Request",
    "Selection",
    "Span",
    "read_form",
    "read_selection",
]

# The kinds of request in a form, with the fields of each.
FIELDS_OF = {"all gaps": (), "offsets": ("offsets",), "time": ("from_time", "until_time")}


@dataclass(frozen=True, slots=True)
class ByOffsets:
    """Requested offsets."""

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
    """All offsets below the positions that no load covers."""

    def __str__(self) -> str:
        return "all gaps"


Selection: TypeAlias = ByOffsets | ByTime | AllGaps


@dataclass(frozen=True, slots=True)
class Request:
    """The offsets to load, the person who requested them, and the options."""

    selection: Selection
    actor: str
    replace: bool = False
    offsets_per_load: int | None = None
    most_loads: int | None = None  # the most loads that the scheduler of the backfill takes


def read_selection(offsets: Sequence[str], since: datetime | None, until: datetime | None, *, gaps: bool) -> Selection:
    """Read the options of a request. Exactly one kind of request is allowed."""
    if bool(offsets) + (since is not None) + gaps != 1 or (until is not None and since is None):
        raise WrongUseError(
            "the request names no offsets, or names them in more than one way.",
            next_step=advice.GIVE_OFFSETS_OR_TIMES,
        )
    if gaps:
        return AllGaps()
    if since is not None:
        return _read_times(since, until)
    return ByOffsets(tuple(map(read_span, offsets)))


def read_form(form: Mapping[str, Any]) -> Selection:
    """Read a form: `what` is a key of FIELDS_OF, and the fields of the other keys are empty."""
    chosen = form["what"]
    others = [name for what, names in FIELDS_OF.items() if what != chosen for name in names if form[name]]
    if others:
        raise WrongUseError(
            f"`what` is {chosen}, and {', '.join(others)} is given too.",
            next_step=advice.CHOOSE_ONE_WAY,
        )
    since, until = (read_time(form[name]) if form[name] else None for name in FIELDS_OF["time"])
    return read_selection(form["offsets"] or [], since, until, gaps=chosen == "all gaps")


def _read_times(since: datetime, until: datetime | None) -> ByTime:
    for moment in filter(None, (since, until)):
        require_zone(moment)
    # Kafka does not accept negative timestamps.
    if since.timestamp() < 0:
        raise WrongUseError(f"the time {since.isoformat()} is before 1970.", next_step=advice.START_AT_1970)
    if until is not None and until <= since:
        raise WrongUseError(
            f"the time {until.isoformat()} to end at is not after {since.isoformat()}.", next_step=advice.SWAP_TIMES
        )
    return ByTime(since, until)
