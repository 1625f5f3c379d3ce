"""Mistakes in a declaration, in words: where the mistake is, what is wrong, what is allowed.

At run time this module imports no pydantic, because a Spark task imports it too.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Place = tuple[int | str, ...]
Names: TypeAlias = "Callable[[Place], Mapping[str, str]]"
_LONGEST_QUOTE = 60


class Mistake(NamedTuple):
    """One mistake, by its place in the declaration."""

    place: Place
    what: str


# The mistake and the allowed values, by pydantic's type of error.
MESSAGES = {
    "missing": ("is missing", "{meaning}"),
    "literal_error": ("invalid value {given}{suggestion}", "{choices}"),
    "string_type": ("must be text, not {given}", "text, in quotes where YAML reads something else"),
    "int_type": ("must be a whole number, not {given}", "digits, without quotes, dots and underscores"),
    "bool_type": ("must be true or false, not {given}", "true, false"),
    "greater_than_equal": ("{given} is too small", "{ge} and more"),
    "less_than_equal": ("{given} is too large", "{le} and less"),
    "tuple_type": ("must be a list, not {given}", "{meaning}"),
    "model_type": ("must be a mapping, not {given}", "{meaning}"),
    "dict_type": ("must be a mapping, not {given}", "{meaning}"),
    "too_short": ("is empty", "at least one: {meaning}"),
    "too_long": ("has too many entries", "at most {max_length}"),
    "value_error": ("{error}", ""),  # from our own validators, whose texts include what is allowed
}


def clip(value: object) -> str:
    """Quote a value in one line of at most 60 characters; a list or a mapping is only named as such."""
    if value is None:
        return "nothing"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    if not isinstance(value, str):
        # A whole number may be too long for Python to print.
        return "a huge number" if isinstance(value, int) and value.bit_length() > 200 else str(value).lower()
    start = value[:_LONGEST_QUOTE]
    quoted = f"'{start}'" if start.isprintable() else ascii(start)
    return quoted if len(value) <= _LONGEST_QUOTE else f"{quoted}…"


def suggest(name: str, names: Iterable[str]) -> str:
    """Suggest the valid name that is nearest to an invalid one: ` (did you mean …?)`, or nothing."""
    known = list(names)
    start = name[:_LONGEST_QUOTE]
    near = get_close_matches(start, known, n=1) or [each for each in known if name and each.startswith(name)]
    return f" (did you mean {near[0]}?)" if near else ""


def describe_errors(error: ValidationError, names: Names) -> list[Mistake]:
    """Describe pydantic's errors; `names` gives the names that are allowed at a place, each with its meaning."""
    return [
        Mistake(_place_in_yaml(found["loc"]), _describe_error(found, names))
        for found in error.errors(include_url=False)
        # pydantic also calls a list too short when only its entries are wrong.
        if not (found["type"] == "too_short" and found["input"])
    ]


def _place_in_yaml(place: Place) -> Place:
    """Find the place in the YAML: a column's name is the key of the column, and a target is one text."""
    if place[:1] in (("columns",), ("input",)) and len(place) == 3 and place[2] == "name":
        return place[:2]
    return place[:1] if place[:1] == ("target",) else place


def _describe_error(found: ErrorDetails, names: Names) -> str:
    known = names(found["loc"][:-1])
    name = str(found["loc"][-1]) if found["loc"] else ""
    if found["type"] == "extra_forbidden":
        return f"unknown name{suggest(name, known)}; allowed: {', '.join(known)}"
    what, allowed = MESSAGES.get(found["type"], (found["msg"], "{meaning}"))
    of_list = names(found["loc"][:-2]).get(str(found["loc"][-2]), "") if len(found["loc"]) > 1 else ""
    within = ", ".join(names(found["loc"])) or of_list or "a mapping of names to values"
    context = {
        "given": clip(found["input"]),
        "meaning": known.get(name, within),
        **found.get("ctx", {}),
    }
    if found["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        context |= {"choices": ", ".join(choices), "suggestion": suggest(str(found["input"]), choices)}
    return "; allowed: ".join(part.format_map(context) for part in (what, allowed) if part)
