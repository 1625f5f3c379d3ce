"""Schedules: five cron fields as croniter reads them (Airflow runs schedules by croniter), or a preset of Airflow."""

from __future__ import annotations

import re
from datetime import datetime
from hashlib import sha256

from penstock.declaration.mistakes import clip

# Airflow's presets as cron fields. The presets @once and @continuous have no times.
_CRON = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
PRESETS = ("@once", "@continuous", *_CRON)
ALLOWED = f"{', '.join(PRESETS)}, five cron fields such as '15 * * * *', or null for runs by hand only"
_FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of the month": "1 to 31",
    "month": "1 to 12 or jan to dec",
    "day of the week": "0 to 7 or sun to sat",
}
# Airflow stores a description of the schedule in 1,000 characters. If it is longer, it drops every DAG of the file.
MAX_LENGTH = 200
# croniter replaces r by a random number, which differs at each parse.
_RANDOM = re.compile(r"(?:^|,)r(?![a-z])", re.IGNORECASE)
_ANY_START = datetime(2024, 1, 1)  # noqa: DTZ001 - schedules have no zone


def check_schedule(text: str) -> str:
    """Return a valid schedule; a ValueError describes the mistake and the allowed schedules."""
    if text.startswith("@"):
        if text not in PRESETS:
            raise ValueError(f"unknown preset {clip(text)}; allowed: {ALLOWED}")
        return text
    if len(text) > MAX_LENGTH:
        raise ValueError(f"{clip(text)} is not a valid schedule; allowed: at most {MAX_LENGTH} characters")
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"{clip(text)} is not a valid schedule; allowed: {ALLOWED}")
    for place, (field, (name, numbers)) in enumerate(zip(fields, _FIELDS.items(), strict=True)):
        if _RANDOM.search(field) or not _is_cron(" ".join(field if at == place else "*" for at in range(len(_FIELDS)))):
            raise ValueError(f"{clip(field)} is not a valid {name}; allowed: {numbers}, *, */n, a-b and lists of these")
    if not _is_cron(text):
        raise ValueError(f"{clip(text)} is not a valid schedule; allowed: {ALLOWED}")
    if not _ever_runs(text):
        raise ValueError(f"{clip(text)} never runs: the calendar has no such day; allowed: a day of the calendar")
    return text


def _is_cron(text: str) -> bool:
    from croniter import CroniterError, croniter

    try:
        croniter(text)
    except CroniterError:
        return False
    return True


def _ever_runs(cron: str) -> bool:
    from croniter import CroniterBadDateError, croniter

    try:
        croniter(cron, _ANY_START).get_next()
    except CroniterBadDateError:
        return False
    return True


def spread(schedule: str, name: str) -> str:
    """Move a schedule of minute 0 to a minute that depends on the name alone; any other schedule stays as it is."""
    if not can_spread(schedule):
        return schedule
    minute = int.from_bytes(sha256(name.encode()).digest()[:8]) % 60
    return " ".join([str(minute), *(as_cron(schedule) or schedule).split()[1:]])


def can_spread(schedule: str) -> bool:
    """Whether a schedule has one time an hour at most, at minute 0."""
    return (as_cron(schedule) or "").split()[:1] == ["0"]


def as_cron(schedule: str) -> str | None:
    """Return the five cron fields of a schedule; None for @once and @continuous, which have none."""
    return _CRON.get(schedule, None if schedule.startswith("@") else schedule)
