"""Numbers that need care: exact decimals from the text of a number, and floats of four bytes.

A decimal is never rounded and never read by way of a float.
"""

from __future__ import annotations

import re
import struct
from decimal import Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMERAL = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(r"[+-]?(nan|inf(inity)?)", re.IGNORECASE)
# Arrow's decimal128 holds this many digits. From a text with more digits, or from a number that its scale widens beyond
# them, Arrow makes a wrong decimal without an error. Such numbers are parsed one by one.
WIDTH = 38
_EXACT = Context(prec=200)


def convert_decimals(texts: Sequence[bytes | None], arrow: pa.DataType) -> pa.Array:
    """Convert plain numbers by Arrow; for any other text the list is refused and parsed one by one."""
    if b"".join(filter(None, texts)).translate(None, b"-.0123456789"):
        raise Rejection("wrong_type", "not plain numbers")
    array = pa.array(texts, pa.binary())
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    if not pa.types.is_decimal128(arrow) or longest + arrow.scale > WIDTH:
        raise Rejection("out_of_range", "long numbers")
    return array.cast(pa.string()).cast(arrow)


def parse_decimal(text: bytes, precision: int, scale: int) -> Decimal:
    """Parse one number exactly; reject it if numeric(precision, scale) cannot hold it without rounding."""
    return scale_decimal(parse_number(text), precision, scale)


def parse_number(text: bytes) -> Decimal:
    """Parse the text of one number."""
    content = text.decode("ascii", errors="replace")
    if NUMERAL.fullmatch(content):
        try:
            return Decimal(content)
        except InvalidOperation:
            raise Rejection("out_of_range", "an exponent beyond all bounds") from None
    if NOT_FINITE.fullmatch(content):
        raise Rejection("out_of_range", "not a finite number")
    raise Rejection("wrong_type", "not a number")


def scale_decimal(number: Decimal, precision: int, scale: int) -> Decimal:
    """Give a number the scale of its column, if no digit is lost."""
    if number == 0:
        return Decimal((0, (0,), -scale))
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise Rejection("out_of_range", "not a finite number")
    zeros_at_end = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    if exponent + zeros_at_end < -scale:
        raise Rejection("out_of_range", f"more than {scale} digits after the point")
    if number.adjusted() >= precision - scale:
        raise Rejection("out_of_range", f"more than {precision - scale} digits before the point")
    return number.quantize(Decimal((0, (1,), -scale)), context=_EXACT)


def convert_reals(values: Sequence[float | None]) -> pa.Array:
    """Convert floats to four bytes by Arrow; refuse the list if one of them becomes infinite or 0."""
    wide = pa.array(values, pa.float64())
    narrow = wide.cast(pa.float32(), safe=False)
    if pc.any(pc.is_inf(narrow)).as_py() or pc.any(pc.not_equal(pc.equal(narrow, 0), pc.equal(wide, 0))).as_py():
        raise Rejection("out_of_range", "a number that real cannot hold")
    return narrow


def parse_real(value: float) -> float:
    """Convert one float to four bytes; reject it if it becomes infinite or 0."""
    try:
        (narrow,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        narrow = 0.0
    if (narrow == 0) != (value == 0):
        raise Rejection("out_of_range", "a number that real cannot hold")
    return float(narrow)
