"""The window of a pipeline: hours of the day in which loads may start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.declaration.starts import never_meets, parse_hours


@pytest.mark.parametrize(
    ("window", "moment", "is_open"),
    [
        ("08:00-17:30", "2026-03-01T07:59", False),
        ("08:00-17:30", "2026-03-01T08:00", True),
        ("08:00-17:30", "2026-03-01T17:30", False),
        ("22:00-06:00", "2026-03-01T23:00", True),
        ("22:00-06:00", "2026-03-01T05:59", True),
        ("22:00-06:00", "2026-03-01T06:00", False),
        ("22:00-06:00 Europe/Berlin", "2026-01-01T21:00", True),  # 22:00 in winter
        ("22:00-06:00 Europe/Berlin", "2026-07-01T20:00", True),  # 22:00 in summer
        ("22:00-06:00 Europe/Berlin", "2026-07-01T19:59", False),
    ],
)
def test_a_window_is_open_in_its_zone_and_may_pass_midnight(window: str, moment: str, *, is_open: bool) -> None:
    assert parse_hours(window).is_open(datetime.fromisoformat(moment).replace(tzinfo=UTC)) is is_open


def test_a_closed_window_names_its_next_opening() -> None:
    hours = parse_hours("22:00-06:00 Europe/Berlin")
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert hours.find_opening(noon) == datetime(2026, 7, 1, 20, tzinfo=UTC)
    morning = parse_hours("05:00-06:00")
    assert morning.find_opening(noon) == datetime(2026, 7, 2, 5, tzinfo=UTC)
    assert (hours.closed, morning.closed) == (timedelta(hours=16), timedelta(hours=23))


@pytest.mark.parametrize(
    ("schedule", "window", "never"),
    [
        ("@hourly", "22:00-06:00", False),
        ("0 12 * * *", "22:00-06:00", True),
        ("0 20 * * *", "22:00-06:00 Europe/Berlin", False),  # in summer
        ("0 19 * * *", "22:00-06:00 Europe/Berlin", True),
        ("30 * * * *", "22:00-22:20", True),
        ("@once", "22:00-22:20", False),
        ("not cron", "22:00-22:20", False),
        ("@hourly", "not hours", False),
    ],
)
def test_a_schedule_that_never_meets_its_window_is_found(schedule: str, window: str, *, never: bool) -> None:
    assert never_meets(schedule, window) is never


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ("24:00-06:00", "is not a window"),
        ("22-06", "is not a window"),
        ("22:00-22:00", "begins when it ends"),
        ("22:00-06:00 Europe/Bern", "unknown time zone"),
        ("22:00-06:00 ../etc", "is not a window"),
        ("22:00-06:00 /etc/passwd", "unknown time zone"),
    ],
)
def test_an_invalid_window_is_refused(window: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_hours(window)
