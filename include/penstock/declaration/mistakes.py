"""Mistakes in a declaration, in words: where it is, what is wrong, what is allowed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from penstock.declaration.words import clip, meant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pydantic_core import ErrorDetails

Place = tuple[int | str, ...]


class Mistake(NamedTuple):
    """One mistake, by its place in the declaration."""

    place: Place
    what: str


def word_errors(error: ValidationError, names: Callable[[Place], Mapping[str, str]]) -> list[Mistake]:
    """Put pydantic's errors into words; `names` tells the names allowed beside a place, with their descriptions."""
    return [Mistake(_written_place(found["loc"]), _word(found, names)) for found in error.errors(include_url=False)]


def to_validation_error(title: str, mistakes: Iterable[Mistake]) -> ValidationError:
    """Make pydantic's error of mistakes, so that a declaration in Python fails in the same words as one in YAML."""
    details = [
        # Curly brackets are pydantic's placeholders, replaced only by a context, and there is none.
        InitErrorDetails(type=PydanticCustomError("declaration", _literal(what)), loc=place, input=None)
        for place, what in mistakes
    ]
    return ValidationError.from_exception_data(title, details, hide_input=True)


def _literal(what: str) -> Any:
    return what


def _written_place(place: Place) -> Place:
    """A column's name is the key it is written under; a target is written as one text."""
    if place[:1] == ("columns",) and len(place) == 3 and place[2] == "name":
        return place[:2]
    return place[:1] if place[:1] == ("target",) else place


def _word(found: ErrorDetails, names: Callable[[Place], Mapping[str, str]]) -> str:  # noqa: PLR0911
    kind, given, context = found["type"], clip(found["input"]), found.get("ctx", {})
    beside, name = names(found["loc"][:-1]), str(found["loc"][-1]) if found["loc"] else ""
    match kind:
        case "missing":
            return f"is missing; allowed: {beside.get(name, 'a value')}"
        case "extra_forbidden":
            return f"unknown name{meant(name, beside)}; allowed: {', '.join(beside)}"
        case "literal_error":
            allowed = re.findall(r"'([^']*)'", context["expected"])
            return f"cannot be {given}{meant(str(found['input']), allowed)}; allowed: {', '.join(allowed)}"
        case "string_type":
            return f"must be text, not {given}; allowed: text, in quotes where YAML reads something else"
        case "int_type":
            return f"must be a whole number, not {given}; allowed: digits, without quotes, dots and underscores"
        case "bool_type":
            return f"must be true or false, not {given}; allowed: true, false"
        case "greater_than_equal":
            return f"{given} is too little; allowed: {context['ge']} and more"
        case "less_than_equal":
            return f"{given} is too much; allowed: {context['le']} and less"
        case "tuple_type" | "list_type":
            return f"must be a list, not {given}; allowed: {beside.get(name, 'a list of texts')}"
        case "model_type" | "dict_type" | "model_attributes_type":
            return f"must be a mapping, not {given}; allowed: {beside.get(name, ', '.join(names(found['loc'])))}"
        case "too_short":
            return f"is empty; allowed: {beside.get(name, 'one at least')}"
        case "value_error":
            return str(context["error"])
    return f"{found['msg']}; allowed: {beside.get(name, 'something else')}"
