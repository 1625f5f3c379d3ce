"""When a pipeline loads, besides its schedule: by the records that wait, and within hours of the day."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, Field, StrictInt, StrictStr, model_validator

from penstock.declaration.durations import parse_duration
from penstock.declaration.mistakes import clip
from penstock.declaration.parts import STRICT
from penstock.declaration.schedules import as_cron

# The triggerer looks every ten seconds, so it cannot keep a shorter wait.
SHORTEST_WAIT = timedelta(minutes=1)

ALLOWED_HOURS = "two times of day and optionally a time zone, such as 22:00-06:00 or 22:00-06:00 Europe/Berlin"
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)(?: ([A-Za-z0-9_+/-]{1,64}))?")
DAY = timedelta(days=1)
# Runs of more than a year of a daily schedule: both times of the clock are among them.
MOST_RUNS = 400
_ANY_DAY = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LoadingHours:
    """The hours of each day in which loads may start; they may pass midnight."""

    since: time
    until: time
    zone: ZoneInfo

    def is_open(self, moment: datetime) -> bool:
        """Whether a load may start at a moment."""
        at = moment.astimezone(self.zone).time()
        if self.since < self.until:
            return self.since <= at < self.until
        return at >= self.since or at < self.until

    def find_opening(self, moment: datetime) -> datetime:
        """The next time at which loads may start, from a moment at which they may not."""
        local = moment.astimezone(self.zone)
        opening = datetime.combine(local.date(), self.since, self.zone)
        return opening if opening > local else datetime.combine(local.date() + DAY, self.since, self.zone)

    @property
    def closed(self) -> timedelta:
        """How long no load may start, on a day of 24 hours."""
        any_day = datetime(2026, 1, 1, tzinfo=self.zone).date()
        opening, end = (datetime.combine(any_day, at) for at in (self.since, self.until))
        return (opening - end) % DAY


def parse_hours(text: str) -> LoadingHours:
    """Parse the hours of a window; a ValueError describes the mistake."""
    found = _HOURS.fullmatch(text)
    if found is None:
        raise ValueError(f"{clip(text)} is not a window; allowed: {ALLOWED_HOURS}")
    since, until = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
    if since == until:
        raise ValueError(f"{clip(text)} begins when it ends; allowed: two different times, or null for any time")
    try:
        return LoadingHours(since, until, ZoneInfo(found[5] or "UTC"))
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"unknown time zone {clip(found[5])}; allowed: {ALLOWED_HOURS}") from error


def never_meets(schedule: str, window: str) -> bool:
    """Whether no run of a schedule, which is in UTC, falls into a window; False if one of them is invalid."""
    from croniter import CroniterError, croniter

    cron = as_cron(schedule)
    if cron is None:
        return False
    try:
        hours, runs = parse_hours(window), croniter(cron, _ANY_DAY)
        return not any(hours.is_open(runs.get_next(datetime)) for _ in range(MOST_RUNS))
    except (ValueError, CroniterError):
        return False


def check_hours(text: str) -> str:
    """Return a valid window; a ValueError describes the mistake."""
    parse_hours(text)
    return text


def _check_wait(text: str | None) -> str | None:
    if text is not None and parse_duration(text) < SHORTEST_WAIT:
        raise ValueError(f"{clip(text)} is too short; allowed: 1m or longer")
    return text


class LoadWhen(BaseModel):
    """The waiting records that start a load before its schedule does."""

    model_config = STRICT

    min_records: Annotated[StrictInt, Field(ge=1, le=2**63 - 1)] | None = Field(
        default=None, description="load when at least so many offsets wait; null for any number"
    )
    max_wait: Annotated[StrictStr | None, AfterValidator(_check_wait)] = Field(
        default=None,
        description="load when the oldest waiting record is older than this, such as 15m; null for any age",
    )

    @model_validator(mode="after")
    def _need_one(self) -> Self:
        if self.min_records is None and self.max_wait is None:
            raise ValueError("neither min_records nor max_wait is given; allowed: one of them, or both")
        return self

    @property
    def longest_wait(self) -> timedelta | None:
        """The age of the oldest waiting record at which a load starts."""
        return None if self.max_wait is None else parse_duration(self.max_wait)
