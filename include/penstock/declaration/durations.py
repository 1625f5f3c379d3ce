"""Durations and windows, as a declaration writes them: `90s`, `5m`, `2h`, `30d`, `4w`, and `100 loads`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ALLOWED_DURATIONS = "a whole number and s, m, h, d or w, such as 90s, 5m, 2h, 30d or 4w"
ALLOWED_WINDOWS = f"{ALLOWED_DURATIONS}, or a number of loads such as 100 loads"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
# PostgreSQL's oldest date is in 4713 BC; a window of a hundred years is longer than any table's history.
MAX_DURATION = timedelta(days=36_500)
MAX_LOADS = 1_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """The earlier loads that a check compares a load with: those of a time, or a number of them."""

    time: timedelta | None = None
    loads: int | None = None


def parse_duration(text: object) -> timedelta:
    """Parse a duration; a ValueError describes the mistake."""
    found = re.fullmatch(r"([0-9]{1,9}) ?([smhdw])", text) if isinstance(text, str) else None
    duration = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
    if duration is None or not timedelta(0) < duration <= MAX_DURATION:
        raise ValueError(f"not a valid duration; allowed: {ALLOWED_DURATIONS}")
    return duration


def parse_window(text: object) -> Window:
    """Parse a window; a ValueError describes the mistake."""
    found = re.fullmatch(r"([0-9]{1,9}) loads?", text) if isinstance(text, str) else None
    if found is None:
        return Window(time=parse_duration(text))
    if not 0 < int(found[1]) <= MAX_LOADS:
        raise ValueError(f"not a valid window; allowed: {ALLOWED_WINDOWS}")
    return Window(loads=int(found[1]))


def is_duration(value: object) -> bool:
    """Check whether `parse_duration` takes a value."""
    return _is_parsed_by(parse_duration, value)


def is_window(value: object) -> bool:
    """Check whether `parse_window` takes a value."""
    return _is_parsed_by(parse_window, value)


def _is_parsed_by(parse: Callable[[object], object], value: object) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True
