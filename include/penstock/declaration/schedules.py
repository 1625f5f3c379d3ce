"""Schedules: five fields of cron as croniter reads them, by which Airflow runs them, or one of Airflow's presets."""

from __future__ import annotations

import re
from datetime import datetime

from penstock.declaration.wording import clip

# Airflow's presets as cron fields. The two others have no times of their own.
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
# Airflow keeps a schedule in words, in 1,000 characters, and drops every DAG of the file if they do not suffice.
LONGEST = 200
# croniter takes r for a random number: another one at each parse.
_RANDOM = re.compile(r"(?:^|,)r(?![a-z])", re.IGNORECASE)
_ANY_START = datetime(2024, 1, 1)  # noqa: DTZ001 - schedules know no zone


def check_schedule(text: str) -> str:
    """Give the schedule back if it can be one; a ValueError says what is allowed."""
    if text.startswith("@"):
        if text not in PRESETS:
            raise ValueError(f"no preset {clip(text)}; allowed: {ALLOWED}")
        return text
    if len(text) > LONGEST:
        raise ValueError(f"{clip(text)} is no schedule; allowed: {LONGEST} characters at most")
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"{clip(text)} is no schedule; allowed: {ALLOWED}")
    for place, (field, (name, numbers)) in enumerate(zip(fields, _FIELDS.items(), strict=True)):
        if _RANDOM.search(field) or not _is_cron(" ".join(field if at == place else "*" for at in range(len(_FIELDS)))):
            raise ValueError(f"{clip(field)} is no {name}; allowed: {numbers}, *, */n, a-b and lists of them")
    if not _is_cron(text):
        raise ValueError(f"{clip(text)} is no schedule; allowed: {ALLOWED}")
    if not _comes(text):
        raise ValueError(f"{clip(text)} never comes; allowed: a schedule with a day that the calendar has")
    return text


def _is_cron(text: str) -> bool:
    from croniter import CroniterError, croniter

    try:
        croniter(text)
    except CroniterError:
        return False
    return True


def _comes(cron: str) -> bool:
    from croniter import CroniterBadDateError, croniter

    try:
        croniter(cron, _ANY_START).get_next()
    except CroniterBadDateError:
        return False
    return True


def as_cron(schedule: str) -> str | None:
    """Give the five fields of a schedule; None for @once and @continuous, which have none."""
    return _CRON.get(schedule, None if schedule.startswith("@") else schedule)
