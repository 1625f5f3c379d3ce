"""How long a pipeline's records may have to wait for its next load: pure."""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache
from itertools import pairwise

from penstock.declaration.schedules import expand_schedule

# Two leap years lie in it, so that a schedule for 29 February shows its interval.
FIRST_DAY, DAYS = date(2024, 1, 1), 5 * 366
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@cache
def find_longest_interval(schedule: str | None) -> timedelta | None:
    """Find the longest time between two runs of a schedule; None if it has no times, or none that are known here."""
    fields = expand_schedule(schedule) if schedule else None
    if fields is None:
        return None
    minutes, hours, days, months, weekdays = fields
    matching = [number for number in range(DAYS) if _matches(FIRST_DAY + number * DAY, days, months, weekdays)]
    if len(matching) < 2:
        return None
    times = sorted(hour * 60 + minute for hour in hours for minute in minutes)
    overnight = max(later - earlier for earlier, later in pairwise(matching)) * 24 * 60 + times[0] - times[-1]
    return max([overnight, *(later - earlier for earlier, later in pairwise(times))]) * MINUTE


def _matches(day: date, days: frozenset[int], months: frozenset[int], weekdays: frozenset[int]) -> bool:
    """If a schedule names days of the month and days of the week, cron runs on both."""
    in_month, in_week = day.day in days, day.isoweekday() % 7 in weekdays
    both_named = len(days) < 31 and len(weekdays) < 7
    return day.month in months and (in_month or in_week if both_named else in_month and in_week)


def write_duration(duration: timedelta) -> str:
    """Write a duration in the largest unit that divides it or goes into it twice, such as 1 h, 36 h or 7 d."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if duration >= 2 * unit or duration == unit:
            return f"{write_number(duration / unit)} {name}"
    return f"{write_number(duration.total_seconds())} s"


def write_number(number: float) -> str:
    """Write a number for people: three digits are enough, and never an exponent for a great one."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
