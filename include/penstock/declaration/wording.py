"""How mistakes quote what was written, and guess what was meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 60


def clip(value: object) -> str:
    """Show a value in quotes, in one line, and no more of it than helps; of lists and mappings only what they are."""
    if value is None:
        return "nothing"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    if not isinstance(value, str):
        # A whole number may be too long for Python to print.
        return "a huge number" if isinstance(value, int) and value.bit_length() > 200 else str(value).lower()
    shown = ascii(value[:_LONGEST]) if not value[:_LONGEST].isprintable() else f"'{value[:_LONGEST]}'"
    return shown if len(value) <= _LONGEST else f"{shown}…"


def meant(name: str, names: Iterable[str]) -> str:
    """Guess the name that was meant: ` (did you mean …?)`, or nothing."""
    known = list(names)
    near = get_close_matches(name[:_LONGEST], known, n=1) or [each for each in known if name and each.startswith(name)]
    return f" (did you mean {near[0]}?)" if near else ""
