"""Schedules: cron's five fields, or one of Airflow's presets."""

from __future__ import annotations

import re

from penstock.declaration.words import clip

PRESETS = ("@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
ALLOWED = f"{', '.join(PRESETS)}, five cron fields such as '15 * * * *', or null for runs by hand only"
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    ("day of the week", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_PART = re.compile(r"(?:\*|(?P<low>[0-9a-z]+)(?:-(?P<high>[0-9a-z]+))?)(?:/(?P<step>[0-9]{1,4}))?")
# What Airflow makes of them. The two others have no times of their own.
_TIMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
# What Airflow's cron knows beyond plain cron: the last day, the last or the n-th weekday of the month.
_SPECIAL = re.compile(r"l|l[0-7]|[0-7a-z]+#[1-5l]")


def check_schedule(text: str) -> str:
    """Give the schedule back if it can be one; a ValueError says what is allowed."""
    if text.startswith("@"):
        if text not in PRESETS:
            raise ValueError(f"no preset {clip(text)}; allowed: {ALLOWED}")
        return text
    fields = text.lower().split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"{clip(text)} is no schedule; allowed: {ALLOWED}")
    for field, (name, low, high, words) in zip(fields, _FIELDS, strict=True):
        if not all(_fits(part, low, high, words) for part in field.split(",")):
            raise ValueError(f"{clip(field)} is no {name}; allowed: {low} to {high}, *, */n, a-b and lists of them")
    return text


def _fits(part: str, low: int, high: int, words: tuple[str, ...]) -> bool:
    if high in (7, 31) and _SPECIAL.fullmatch(part):
        return True
    form = _PART.fullmatch(part)
    if form is None or (form["step"] is not None and int(form["step"]) == 0):
        return False
    ends = [_number(form[end], low, words) for end in ("low", "high") if form[end] is not None]
    return all(end is not None and low <= end <= high for end in ends)


def _number(text: str, low: int, words: tuple[str, ...]) -> int | None:
    if text in words:
        return words.index(text) + low
    return int(text) if text.isdigit() and len(text) <= 2 else None


def expand_schedule(text: str) -> tuple[frozenset[int], ...] | None:
    """The minutes, hours, days of the month, months and days of the week (Sunday is 0) of a schedule that fits.

    None for @once and @continuous, which have none, and for special days (L, #), which are no sets of numbers.
    """
    fields = _TIMES.get(text, text).lower().split()
    if len(fields) != len(_FIELDS):
        return None
    expanded = []
    for field, (_, low, high, words) in zip(fields, _FIELDS, strict=True):
        forms = [_PART.fullmatch(part) for part in field.split(",")]
        numbers = {number for form in forms if form for number in _expand(form, low, high, words)}
        if not all(forms) or not numbers:
            return None
        expanded.append(frozenset(number % 7 for number in numbers) if high == 7 else frozenset(numbers))
    return tuple(expanded)


def _expand(form: re.Match[str], low: int, high: int, words: tuple[str, ...]) -> list[int]:
    """All numbers of one part; a range whose end comes first goes round: 22-2 are the hours 22, 23, 0, 1, 2."""
    high = 6 if high == 7 and form["low"] is None else high
    first = low if form["low"] is None else _number(form["low"], low, words)
    last = high if form["high"] is None else _number(form["high"], low, words)
    if first is None or last is None:
        return []
    if form["low"] is not None and form["high"] is None and form["step"] is None:
        last = first
    last = last if last >= first else last + high - low + 1
    size = high - low + 1
    return [low + (number - low) % size for number in range(first, last + 1, int(form["step"] or 1))]
