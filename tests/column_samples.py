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
# JSON texts at and beyond the ends of some type.
EDGES: list[str] = [
    "0", "-0", "-0.0", "1.0", "32767", "32768", "-2147483648", "2147483648", "9223372036854775807",
    "-9223372036854775809",
    "1e38", "3.5e38", "1e-46", "1e308", "1e309", "1e-400", "999.99", "999.995", "-999.99", "0.000", "1e2", "12345e-2",
    "1" * 38, "1" * 39, "0." + "1" * 38, "9" * 76, "1e131071", "1e131072", "1e-16383", "1e-16384", "1e9999999999",
    "9224318016000000", "-210866803200000", "-210866803200001", "9223372036854775", "1704067200.5",
    "true", "false", "null", "{}", "[]", '""', '" "', '"a\\u0000b"', '"\\ud83d\\ude00"',
    '"\\ud83d"', '"\\ude00\\ud83d"',
    '"abc"', '"abcd"', '"abc "', '"äöü"', '"aGk="', '"\\\\u0000"', '"NaN"', '"Infinity"', '"-0"',
    '"1e5"', '" 1"', '"+1"',
    '"1900-02-29"', '"2000-02-29"', '"\\ud83d\\u0041"', '"\\ud83d\\ue000"',
    "1000", "-1000", "999.990", "10000000000", '"1000"', "-0.5", "-0.0000001", "-1704067200.0000005",
    '"2024-02-29"', '"0001-01-01"', '"0000-12-31"', '"9999-12-31"', '"10000-01-01"', '"00:00"',
    '"23:59:59.999999"', '"24:00"',
    '"2024-02-29T23:59:60Z"', '"9999-12-31T23:59:59.999999-23:59"', '"0001-01-01T00:00:00+23:59"',
    '"2024-01-01T00:00:00"',
    '"2024-01-01 00:00:00.1234567Z"', '"infinity"', '"now"', '"12345678123456781234567812345678"',
    '{"a": 1e131073}', '{"a": "\\u0000"}', '{"\\u0000": 1}', '{"a": [1, 2, {"b": null}]}', '{"a": 1, "a": 2}',
    "[" * 300 + "]" * 300, "[" * 2000 + "]" * 2000, "1" * 140_000, '"' + "x" * 300_000 + '"',
]  # fmt: skip
# Records with invalid JSON or invalid UTF-8, and one without a value.
INVALID_RECORDS: list[bytes | None] = [
    None, b"", b"\xff", b'{"c": "\xff"}', b'{"c": "\xed\xa0\x80"}', b'{"c": {"d": "\xff"}}', b'{"c": "\x01"}',
]  # fmt: skip
