"""Dates and times in arguments of checks, as Great Expectations reads them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any

_MOMENT = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)"
    r"(?P<time>[T ](\d\d?):(\d\d?)(?::(\d\d?)(?:\.\d{1,12})?)?(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)


def form_of(value: object) -> str:
    """Tell the form of a moment: `date`, `time` without a zone, or `zone`; nothing else has one."""
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if found is None or read_moment(found.string) is None:
        return ""
    return "zone" if found["zone"] else "time" if found["time"] else "date"


def read_moment(text: str) -> Any:  # noqa: ANN401 - a datetime with or without a zone, as it was written, or None
    """Read a moment; two of one form can be compared."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3, 5, 6, 7))
    zone = found["zone"] or ""
    digits = zone.strip("Z+-").replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone.startswith("-") else 1)
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset) if zone else None)
    except ValueError:
        return None
