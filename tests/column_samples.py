"""Samples of the values of each column type. Every test that tries all types takes them from here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of one type, as PostgreSQL reads them."""

    value: str
    other: str  # another value of the type; the row's hash must tell the two apart
    least: str  # the ends of the range; for a type without an order, two unusual values
    greatest: str
    also: tuple[str, ...] = ()  # the type with other arguments


# A type as a declaration spells it: its sample.
SAMPLES: dict[str, Sample] = {
    "smallint": Sample("1", "2", "-32768", "32767"),
    "integer": Sample("1", "2", "-2147483648", "2147483647"),
    "bigint": Sample("1", "2", "-9223372036854775808", "9223372036854775807"),
    "real": Sample("1.5", "1.25", "-3.4028235e38", "3.4028235e38"),
    "double precision": Sample("1.5", "1.25", "-1.7976931348623157e308", "1.7976931348623157e308"),
    "numeric(12,2)": Sample(
        "1.50", "1.51", "-9999999999.99", "9999999999.99", ("numeric(5,2)", "numeric(38,10)", "numeric(76,38)")
    ),
    "text": Sample("abc", "abd", "", "\U0010ffff"),
    "varchar(3)": Sample("abc", "abd", "", "\U0010ffff" * 3, ("varchar(20)",)),
    "char(3)": Sample("abc", "abd", "", "\U0010ffff" * 3),
    "boolean": Sample("true", "false", "false", "true"),
    "bytea": Sample("abc", "abd", "", "\\xffffffff"),
    "date": Sample("2026-01-31", "2026-02-01", "4714-11-24 BC", "5874897-12-31"),
    "time": Sample("10:11:12", "10:11:13", "00:00", "23:59:59.999999"),
    "timestamp": Sample("2026-01-31 10:11:12", "2026-02-01", "4714-11-24 00:00 BC", "294246-01-01"),
    "timestamptz": Sample("2026-01-31 10:11:12+00", "2026-02-01", "4714-11-24 00:00+00 BC", "294246-01-01+00"),
    "uuid": Sample(
        "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002",
        "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ),
    "json": Sample('{"a": 1}', '{"a":1}', "null", '{"a": ' + "9" * 5000 + "}"),
    "jsonb": Sample('{"a": 1}', '{"a": 2}', "null", '{"a": ' + "9" * 5000 + "}"),
}  # fmt: skip
# Each type with each of its arguments.
EVERY_SPELLING: list[str] = [spelling for type_, sample in SAMPLES.items() for spelling in (type_, *sample.also)]
