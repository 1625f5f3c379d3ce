"""Dates and times: ISO 8601 texts and epoch numbers, as microseconds since 1970.

A fraction beyond the microsecond is truncated, because rounding could move a record into the next hour.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import MAX_EMAX, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.records.columns.numbers import parse_number
from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.declaration.columns import Family
    from penstock.model.records import Numbers

# 4714-11-24 BC is PostgreSQL's first day; Arrow's microseconds end before PostgreSQL's do.
FIRST, LAST = -210_866_803_200_000_000, 9_223_372_036_854_775_807
DAY = 86_400_000_000
PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
_CLOCK = r"(?P<hour>[01]\d|2[0-3])(?::(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.(?P<fraction>\d+))?)?)?"
_ZONE = r"(?P<zone>Z|(?P<sign>[+-])(?P<ahead>[01]\d|2[0-3])(?::?(?P<minutes>[0-5]\d))?)"
_DAY = r"(?P<day>\d{4}-\d\d-\d\d)"
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class IsoForm:
    """The texts that one of date, time, timestamp, timestamptz takes."""

    arrow: pa.DataType
    pattern: re.Pattern[str]
    description: str

    def convert(self, values: Sequence[str | None]) -> pa.Array:
        """Convert texts by Arrow, which reads the same forms but refuses fractions beyond the microsecond."""
        texts = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
        if pa.types.is_time(self.arrow):
            moments = pc.binary_join_element_wise("1970-01-01T", texts, "").cast(pa.timestamp("us"))
            return moments.cast(pa.int64()).cast(self.arrow)
        array = texts.cast(self.arrow)
        _refuse_year_zero(pc.min(pc.utf8_slice_codeunits(texts, 0, 4)).as_py())
        return array

    def parse(self, text: str) -> int:
        """Parse one text: days for a date, else microseconds."""
        found = self.pattern.fullmatch(text)
        if found is None or not text.isascii():
            raise Rejection("bad_timestamp", f"not {self.description}")
        parts = found.groupdict()
        days = _count_days(parts["day"]) if "day" in parts else 0
        if pa.types.is_date(self.arrow):
            return days
        return days * DAY + _read_clock(parts) - _read_zone(parts)


def _refuse_year_zero(least_year: str | None) -> None:
    if least_year == "0000":
        raise Rejection("bad_timestamp", "the year 0")


def _count_days(text: str) -> int:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        raise Rejection("bad_timestamp", "not a day of the calendar") from None


def _read_clock(parts: dict[str, Any]) -> int:
    seconds = int(parts["hour"] or 0) * 3600 + int(parts["minute"] or 0) * 60 + int(parts["second"] or 0)
    return seconds * 1_000_000 + int((parts["fraction"] or "0").ljust(6, "0")[:6])


def _read_zone(parts: dict[str, Any]) -> int:
    ahead = int(parts.get("ahead") or 0) * 3600 + int(parts.get("minutes") or 0) * 60
    return (-ahead if parts.get("sign") == "-" else ahead) * 1_000_000


ISO_FORMS: dict[Family, IsoForm] = {
    "date": IsoForm(pa.date32(), re.compile(_DAY), "a date such as 2024-12-31"),
    "time": IsoForm(pa.time64("us"), re.compile(_CLOCK), "a time such as 23:59:59.5"),
    "timestamp": IsoForm(
        pa.timestamp("us"),
        re.compile(rf"{_DAY}(?:[T ]{_CLOCK})?"),
        "a timestamp without a zone such as 2024-12-31T23:59:59.5",
    ),
    "timestamptz": IsoForm(
        pa.timestamp("us", "UTC"),
        re.compile(rf"{_DAY}[T ]{_CLOCK}{_ZONE}"),
        "a timestamp with a zone such as 2024-12-31T23:59:59.5Z",
    ),
}


def convert_epochs(texts: Sequence[bytes | None], unit: str, arrow: pa.DataType) -> pa.Array:
    """Convert whole numbers by Arrow; for any other text the list is refused and parsed one by one."""
    if b"".join(filter(None, texts)).translate(None, b"-0123456789"):
        raise Rejection("wrong_type", "not whole numbers")
    numbers = pa.array(texts, pa.binary()).cast(pa.string()).cast(pa.int64())
    return _bound(pc.multiply_checked(numbers, PER_UNIT[unit])).cast(arrow)


def convert_millis(millis: Numbers) -> pa.Array:
    """Convert the timestamps of Kafka's records; a record without one (-1) gets null."""
    numbers = pa.array(millis)
    known = pc.if_else(pc.equal(numbers, -1), pa.scalar(None, pa.int64()), numbers)
    return _bound(pc.multiply_checked(known, 1000)).cast(ISO_FORMS["timestamptz"].arrow)


def _bound(micros: pa.Array) -> pa.Array:
    least = pc.min(micros).as_py()
    if least is not None and least < FIRST:
        raise Rejection("out_of_range", "")
    return micros


def parse_epoch(text: bytes, unit: str) -> int:
    """Parse one epoch number, whole or with a fraction."""
    number = parse_number(text)
    if number and number.adjusted() > 30:
        raise Rejection("out_of_range", "beyond the timestamps of PostgreSQL")
    exact = Context(prec=len(number.as_tuple().digits) + 40, Emin=MIN_EMIN, Emax=MAX_EMAX, rounding=ROUND_FLOOR)
    return check_micros(int(exact.multiply(number, Decimal(PER_UNIT[unit])).to_integral_value(context=exact)))


def parse_millis(millis: int) -> int | None:
    """Parse the timestamp of one of Kafka's records."""
    return None if millis == -1 else check_micros(millis * 1000)


def check_micros(micros: int) -> int:
    """Return a timestamp that PostgreSQL and Arrow can hold; reject any other."""
    if not FIRST <= micros <= LAST:
        raise Rejection("out_of_range", "beyond the timestamps of PostgreSQL")
    return micros
