"""Why a record cannot become a row."""

from __future__ import annotations

import json
import re
from typing import Literal, Never

import msgspec

Reason = Literal[
    "bad_json",
    "bad_timestamp",
    "bad_utf8",
    "missing_required",
    "nul_byte",
    "null_value",
    "out_of_range",
    "refused_by_database",
    "too_large",
    "too_long",
    "wrong_type",
]


class Unfit(Exception):  # noqa: N818 - it is no error of Penstock: the record goes to the quarantine
    """A value that its column cannot hold. The detail tells what was wrong, and nothing of the value."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.reason: Reason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}")


def describe_mistake(error: Exception, value: bytes = b"") -> Unfit:
    """Why msgspec could not read a value: a stable word, and its own sentence, which shows nothing of the value."""
    text = str(error)
    if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError) and _is_json(value):
        # After half a surrogate pair msgspec expects the other half, and says in various words that it is missing.
        return Unfit("bad_utf8", "half a surrogate pair")
    if isinstance(error, UnicodeDecodeError):
        return Unfit("bad_utf8", "bytes that are no UTF-8")
    if isinstance(error, RecursionError):
        return Unfit("bad_json", "nested too deeply")
    for pattern, reason in _MISTAKES:
        if re.search(pattern, text):
            return Unfit(reason, text)
    return Unfit("wrong_type" if isinstance(error, msgspec.ValidationError) else "bad_json", text)


def _is_json(value: bytes) -> bool:
    """Whether a value with an escaped character is JSON by its grammar."""
    try:
        # Python would refuse to read an integer of more than 4,300 digits, and would read NaN.
        json.loads(value, parse_int=len, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return b"\\u" in value


def _refuse_constant(_: str) -> Never:
    raise ValueError


_MISTAKES: tuple[tuple[str, Reason], ...] = (
    (r"missing required field|got `null` - at `\$", "missing_required"),
    (r"Expected `int` [<>]=|(Number|Integer value) out of range", "out_of_range"),
    (r"surrogate", "bad_utf8"),
)
