"""Mistakes in a declaration, in words: where it is, what is wrong, what is allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from penstock.declaration.wording import clip, meant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pydantic_core import ErrorDetails

Place = tuple[int | str, ...]
Names: TypeAlias = "Callable[[Place], Mapping[str, str]]"


class Mistake(NamedTuple):
    """One mistake, by its place in the declaration."""

    place: Place
    what: str


# What is wrong, and what is allowed, by pydantic's type of error.
WORDS = {
    "missing": ("is missing", "{meaning}"),
    "literal_error": ("cannot be {given}{meant}", "{choices}"),
    "string_type": ("must be text, not {given}", "text, in quotes where YAML reads something else"),
    "int_type": ("must be a whole number, not {given}", "digits, without quotes, dots and underscores"),
    "bool_type": ("must be true or false, not {given}", "true, false"),
    "greater_than_equal": ("{given} is too little", "{ge} and more"),
    "less_than_equal": ("{given} is too much", "{le} and less"),
    "tuple_type": ("must be a list, not {given}", "{meaning}"),
    "model_type": ("must be a mapping, not {given}", "{meaning}"),
    "dict_type": ("must be a mapping, not {given}", "{meaning}"),
    "too_short": ("is empty", "one at least: {meaning}"),
    "too_long": ("holds too many", "{max_length} at most"),
    "value_error": ("{error}", ""),  # from our own validators, which say what is allowed
}


def word_errors(error: ValidationError, names: Names) -> list[Mistake]:
    """Put pydantic's errors into words; `names` tells the names allowed beside a place, with their descriptions."""
    return [
        Mistake(_written_place(found["loc"]), _word(found, names))
        for found in error.errors(include_url=False)
        # To pydantic a list is too short as well when what it holds is wrong.
        if not (found["type"] == "too_short" and found["input"])
    ]


def to_validation_error(title: str, mistakes: Iterable[Mistake]) -> ValidationError:
    """Make pydantic's error of mistakes, so that a declaration in Python fails in the same words as one in YAML."""
    details = [
        # Curly brackets are pydantic's placeholders, replaced only by a context, and there is none.
        InitErrorDetails(type=PydanticCustomError("declaration", what), loc=place, input=None)
        for place, what in mistakes
    ]
    return ValidationError.from_exception_data(title, details, hide_input=True)


def _written_place(place: Place) -> Place:
    """A column's name is the key it is written under; a target is written as one text."""
    if place[:1] == ("columns",) and len(place) == 3 and place[2] == "name":
        return place[:2]
    return place[:1] if place[:1] == ("target",) else place


def _word(found: ErrorDetails, names: Names) -> str:
    known = names(found["loc"][:-1])
    name = str(found["loc"][-1]) if found["loc"] else ""
    if found["type"] == "extra_forbidden":
        return f"unknown name{meant(name, known)}; allowed: {', '.join(known)}"
    what, allowed = WORDS.get(found["type"], (found["msg"], "{meaning}"))
    of_list = names(found["loc"][:-2]).get(str(found["loc"][-2]), "") if len(found["loc"]) > 1 else ""
    within = ", ".join(names(found["loc"])) or of_list or "a mapping of names to values"
    context = {
        "given": clip(found["input"]),
        "meaning": known.get(name, within),
        **found.get("ctx", {}),
    }
    if found["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        context |= {"choices": ", ".join(choices), "meant": meant(str(found["input"]), choices)}
    return "; allowed: ".join(part.format_map(context) for part in (what, allowed) if part)
