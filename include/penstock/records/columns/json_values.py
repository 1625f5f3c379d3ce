"""JSON that PostgreSQL's json and jsonb take: the grammar has been checked, what is beyond it is checked here."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.records.rejection import Unfit

if TYPE_CHECKING:
    from collections.abc import Sequence

# A backslash may begin \u0000 or half a surrogate pair, an exponent or a long number may leave numeric's range.
SUSPICIOUS = re.compile(rb"[\x00-\x1f]|\\u|[0-9][eE]|[0-9]{1000}")
MAX_DEPTH = 400
# What numeric holds: digits before and after the point.
MAX_WHOLE, MAX_FRACTION = 131_072, 16_383
_NUMBER = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_together(texts: Sequence[bytes | None]) -> None:
    """Pass a list of texts in one look, if none of them needs a second one."""
    joined = b",".join(filter(None, texts))
    joined.decode()
    if SUSPICIOUS.search(joined) or any(map(_may_be_deep, filter(None, texts))):
        for text in filter(None, texts):
            check_one(text)


def _may_be_deep(text: bytes) -> bool:
    return len(text) > 2 * MAX_DEPTH and text.count(b"[") + text.count(b"{") > MAX_DEPTH


def check_one(text: bytes) -> None:
    """Check one text whole."""
    try:
        content = text.decode()
        if not SUSPICIOUS.search(text) and not _may_be_deep(text):
            return
        parsed = json.loads(
            content, parse_int=_check_number, parse_float=_check_number, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError:
        raise Unfit("bad_utf8", "bytes that are no UTF-8") from None
    except RecursionError:
        raise Unfit("bad_json", "nested too deeply") from None
    except json.JSONDecodeError as error:
        raise Unfit("bad_json", error.msg) from None
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
    raise Unfit("bad_json", "nested too deeply")


def _check_text(text: str) -> None:
    if "\0" in text:
        raise Unfit("nul_byte", "a NUL character, which PostgreSQL's text cannot hold")
    if _SURROGATE.search(text):
        raise Unfit("bad_utf8", "half a surrogate pair")


def _check_number(text: str) -> int:
    found = _NUMBER.fullmatch(text)
    exponent = found[3] or "0" if found else "0"
    if found is None or len(exponent) > 7:
        raise Unfit("out_of_range", "a number beyond the range of numeric")
    whole, fraction = len(found[1]) + int(exponent), len(found[2] or "") - int(exponent)
    if whole > MAX_WHOLE or fraction > MAX_FRACTION:
        raise Unfit("out_of_range", "a number beyond the range of numeric")
    return 0


def _refuse_constant(_: str) -> NoReturn:
    raise Unfit("bad_json", "NaN and Infinity are no JSON")
