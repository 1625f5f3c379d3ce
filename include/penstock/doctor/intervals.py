"""The longest time between two loads of a schedule. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from penstock.declaration.schedules import as_cron

if TYPE_CHECKING:
    from collections.abc import Iterable

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
# The period has two leap years, so that a schedule for 29 February has an interval.
FIRST_DAY, LAST_DAY = datetime(2024, 1, 1), datetime(2028, 12, 31)  # noqa: DTZ001 - schedules know no zone


@cache
def find_longest_interval(schedule: str | None) -> timedelta | None:
    """Find the longest time between two runs of a schedule; None if it has no times, or comes once in five years."""
    from croniter import croniter

    cron = as_cron(schedule) if schedule else None
    if cron is None:
        return None
    minutes, hours = croniter.expand(cron)[0][:2]
    starts = [hour * 60 + minute for hour in _numbers(hours, 24) for minute in _numbers(minutes, 60)]
    days = _list_days(" ".join(["0 0", *cron.split()[2:]]))
    if len(days) < 2:
        return None
    overnight = max(later - earlier for earlier, later in pairwise(days)) + (min(starts) - max(starts)) * MINUTE
    return max([overnight, *((later - earlier) * MINUTE for earlier, later in pairwise(sorted(starts)))])


def _list_days(cron: str) -> list[datetime]:
    """List the days of a schedule, as midnights, because a schedule for each minute has too many runs to list."""
    from croniter import CroniterBadDateError, croniter

    try:
        runs = croniter(cron, FIRST_DAY - MINUTE).all_next(datetime)
        return list(takewhile(lambda day: day <= LAST_DAY, runs))
    except CroniterBadDateError:
        return []


def _numbers(field: list[int | str], size: int) -> Iterable[int]:
    return range(size) if field == ["*"] else map(int, field)


def write_duration(duration: timedelta) -> str:
    """Write a duration in the largest unit that equals it or fits into it twice, such as 1 h, 36 h or 7 d."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if duration >= 2 * unit or duration == unit:
            return f"{write_number(duration / unit)} {name}"
    return f"{write_number(duration.total_seconds())} s"


def write_number(number: float) -> str:
    """Write a number with three digits, and without an exponent for a large number."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
