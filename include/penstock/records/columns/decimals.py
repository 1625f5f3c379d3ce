"""Exact decimals from the text of JSON numbers, or of strings that hold one: never rounded, never by way of a float."""

from __future__ import annotations

import re
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.records.rejection import Unfit, describe_mistake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msgspec import Raw

NUMERAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(r"[+-]?(nan|inf(inity)?)", re.IGNORECASE)
# What Arrow's decimal128 holds. Of a text with more digits, and of a number that it has to widen beyond them for its
# scale, Arrow makes a wrong decimal without a word: those take the exact way.
WIDTH = 38
_EXACT = Context(prec=200)


def convert(values: Sequence[Raw], arrow: pa.DataType) -> pa.Array:
    """Convert plain numbers by Arrow; anything else is refused, and takes the exact way."""
    texts = [None if (text := bytes(value)) == b"null" else text for value in values]
    if b"".join(filter(None, texts)).translate(None, b"-.0123456789"):
        raise Unfit("wrong_type", "not plain numbers")
    array = pa.array(texts, pa.binary())
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    if not pa.types.is_decimal128(arrow) or longest + arrow.scale > WIDTH:
        raise Unfit("out_of_range", "long numbers")
    return array.cast(pa.string()).cast(arrow)


def parse(value: Raw, precision: int, scale: int) -> Decimal | None:
    """Parse one number exactly; what numeric(precision, scale) cannot hold whole is unfit."""
    number = read_number(value)
    return None if number is None else fit(number, precision, scale)


def read_number(value: Raw) -> Decimal | None:
    """Read a number, or a string that holds a number; null is None."""
    text = bytes(value)
    if text == b"null":
        return None
    content = _read_string(text) if text.startswith(b'"') else text.decode("ascii", errors="replace")
    if NUMERAL.fullmatch(content):
        try:
            return Decimal(content)
        except InvalidOperation:
            raise Unfit("out_of_range", "an exponent beyond all bounds") from None
    if text.startswith(b'"') and NOT_FINITE.fullmatch(content):
        raise Unfit("out_of_range", "not a finite number")
    raise Unfit("wrong_type", "not a number")


def _read_string(text: bytes) -> str:
    try:
        return msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise describe_mistake(error) from None


def fit(number: Decimal, precision: int, scale: int) -> Decimal:
    """Give a number the scale of its column, if that loses nothing."""
    if number == 0:
        return Decimal((0, (0,), -scale))
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise Unfit("out_of_range", "not a finite number")
    ending = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if exponent + ending < -scale:
        raise Unfit("out_of_range", f"more than {scale} digits after the point")
    if number.adjusted() >= precision - scale:
        raise Unfit("out_of_range", f"more than {precision - scale} digits before the point")
    return number.quantize(Decimal((0, (1,), -scale)), context=_EXACT)
