"""JSON documents for PostgreSQL's json and jsonb.

The grammar was checked when the value was read. This module checks the limits that PostgreSQL sets beyond the grammar.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence

# A backslash may begin \u0000 or half a surrogate pair, an exponent or a long number may leave numeric's range.
SUSPICIOUS = re.compile(rb"[\x00-\x1f]|\\u|[0-9][eE]|[0-9]{1000}")
MAX_DEPTH = 400
# The digits that numeric holds before and after the point.
MAX_WHOLE, MAX_FRACTION = 131_072, 16_383
_NUMBER = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_together(texts: Sequence[bytes | None]) -> None:
    """Check a list of texts with one search; check one by one only if the search finds something suspicious."""
    joined = b",".join(filter(None, texts))
    joined.decode()
    if SUSPICIOUS.search(joined) or any(map(_may_be_deep, filter(None, texts))):
        for text in filter(None, texts):
            check_one(text)


def _may_be_deep(text: bytes) -> bool:
    return len(text) > 2 * MAX_DEPTH and text.count(b"[") + text.count(b"{") > MAX_DEPTH


def check_one(text: bytes) -> None:
    """Check one text; reject it if json or jsonb cannot hold it."""
    try:
        content = text.decode()
        if not SUSPICIOUS.search(text) and not _may_be_deep(text):
            return
        parsed = json.loads(
            content, parse_int=_check_number, parse_float=_check_number, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError:
        raise Rejection("bad_utf8", "bytes that are not UTF-8") from None
    except RecursionError:
        raise Rejection("bad_json", "nested too deeply") from None
    except json.JSONDecodeError as error:
        raise Rejection("bad_json", error.msg) from None
    _check_parts(parsed)


def _check_parts(parsed: Any) -> None:  # noqa: ANN401 - any JSON
    level = [parsed]
    for _ in range(MAX_DEPTH + 1):
        for part in level:
            for text in part if isinstance(part, dict) else (part,) if isinstance(part, str) else ():
                _check_text(text)
        level = [
            inner
            for part in level
            if isinstance(part, dict | list)
            for inner in (part.values() if isinstance(part, dict) else part)
        ]
        if not level:
            return
    raise Rejection("bad_json", "nested too deeply")


def _check_text(text: str) -> None:
    if "\0" in text:
        raise Rejection("nul_byte", "a NUL character, which PostgreSQL's text cannot hold")
    if _SURROGATE.search(text):
        raise Rejection("bad_utf8", "half a surrogate pair")


def _check_number(text: str) -> int:
    found = _NUMBER.fullmatch(text)
    exponent = found[3] or "0" if found else "0"
    if found is None or len(exponent) > 7:
        raise Rejection("out_of_range", "a number beyond the range of numeric")
    whole, fraction = len(found[1]) + int(exponent), len(found[2] or "") - int(exponent)
    if whole > MAX_WHOLE or fraction > MAX_FRACTION:
        raise Rejection("out_of_range", "a number beyond the range of numeric")
    return 0


def _refuse_constant(_: str) -> NoReturn:
    raise Rejection("bad_json", "NaN and Infinity are not JSON")
