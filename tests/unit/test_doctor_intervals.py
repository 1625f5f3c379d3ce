"""The longest interval of a schedule, with croniter, which Airflow runs by, as the second witness."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st

from penstock.declaration.schedules import PRESETS, check_schedule
from penstock.doctor.intervals import find_longest_interval, write_duration

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    """One field of cron: a star, steps, numbers, ranges."""
    numbers = st.integers(low, high)
    ranges = st.tuples(numbers, numbers).map(sorted).map(lambda ends: f"{ends[0]}-{ends[1]}")
    parts = numbers.map(str) | ranges | st.tuples(ranges, st.integers(1, 5)).map(lambda both: f"{both[0]}/{both[1]}")
    steps = st.integers(2, 20).map(lambda step: f"*/{step}")
    return st.just("*") | steps | st.lists(parts, min_size=1, max_size=3).map(",".join)


# A day of the month or a day of the week: how cron joins the two is tested by examples.
days = st.tuples(fields(1, 28), st.just("*"), st.just("*")) | st.tuples(st.just("*"), st.just("*"), fields(0, 6))
schedules = st.tuples(fields(0, 59), fields(0, 23), days).map(lambda parts: " ".join((*parts[:2], *parts[2])))


def gaps(schedule: str, runs: int) -> list[timedelta]:
    """The times between runs as croniter gives them."""
    times = croniter(schedule, START)
    found = [times.get_next(datetime) for _ in range(runs)]
    return [later - earlier for earlier, later in pairwise(found)]


@given(schedules)
def test_no_two_runs_are_further_apart(schedule: str) -> None:
    longest = find_longest_interval(check_schedule(schedule))

    assert longest is not None
    assert max(gaps(schedule, 200)) <= longest


@pytest.mark.parametrize(
    ("schedule", "longest"),
    [
        ("* * * * *", timedelta(minutes=1)),
        ("@hourly", HOUR),
        ("15 * * * *", HOUR),
        ("*/25 * * * *", timedelta(minutes=25)),
        ("5/20 * * * *", timedelta(minutes=20)),
        ("0 22-2 * * *", 20 * HOUR),
        ("@daily", DAY),
        ("30 6,18 * * *", 12 * HOUR),
        ("0 8 * * mon-fri", 3 * DAY),
        ("0 0 * * 7", 7 * DAY),
        ("@weekly", 7 * DAY),
        ("@monthly", 31 * DAY),
        ("0 0 31 * *", 61 * DAY),
        ("0 0 1,15 * 1", 7 * DAY),  # days of the month and of the week: cron runs on both
        ("@quarterly", 92 * DAY),
        ("@yearly", 366 * DAY),
        ("0 0 29 feb *", 1461 * DAY),
        ("0 0 l * *", 31 * DAY),
        ("0 0 * * 5#2", 35 * DAY),
    ],
)
def test_schedules_have_the_longest_interval_that_a_calendar_shows(schedule: str, longest: timedelta) -> None:
    assert find_longest_interval(schedule) == longest
    # Fifteen runs end before the year 2100, which leaves a leap day out.
    assert max(gaps(schedule.replace("@quarterly", "0 0 1 */3 *"), 15)) == longest


@pytest.mark.parametrize("schedule", [None, "@once", "@continuous", "0 0 30 2 *", "0 0 29 2 1#5"])
def test_what_has_no_known_times_has_no_interval(schedule: str | None) -> None:
    assert find_longest_interval(schedule) is None


def test_every_preset_that_has_times_has_an_interval() -> None:
    without = [preset for preset in PRESETS if find_longest_interval(preset) is None]

    assert without == ["@once", "@continuous"]


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "0 s"), (90, "90 s"), (150, "2.5 min"), (3600, "1 h"), (86400, "1 d"), (129600, "36 h"), (604800, "7 d")],
)
def test_durations_are_written_in_the_largest_unit_that_divides_them_or_goes_in_twice(
    seconds: int, written: str
) -> None:
    assert write_duration(timedelta(seconds=seconds)) == written
