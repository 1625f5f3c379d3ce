"""The types and paths of columns: read from a declaration; types are spelled as PostgreSQL spells them.

This module imports no pyarrow, because Airflow imports it whenever it parses the DAGs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from penstock.declaration.mistakes import clip, suggest

Family = Literal[
    "smallint", "integer", "bigint", "real", "double", "numeric", "text", "varchar", "char",
    "boolean", "bytea", "date", "time", "timestamp", "timestamptz", "uuid", "json", "jsonb",
]  # fmt: skip
# Types of one group are compared with each other by PostgreSQL, and take the same checks.
Group = Literal["number", "text", "moment", "time", "boolean", "bytes", "uuid", "document"]


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A type of PostgreSQL: its spelling by format_type() ({} takes the arguments), its names, its group, its JSON."""

    sql: str
    names: tuple[str, ...]
    group: Group
    json: str
    arguments: str = ""


TYPES: dict[Family, TypeRow] = {
    "smallint": TypeRow("smallint", ("smallint", "int2"), "number", "a whole number"),
    "integer": TypeRow("integer", ("integer", "int", "int4"), "number", "a whole number"),
    "bigint": TypeRow("bigint", ("bigint", "int8"), "number", "a whole number"),
    "real": TypeRow("real", ("real", "float4"), "number", "a number"),
    "double": TypeRow("double precision", ("double precision", "float8"), "number", "a number"),
    "numeric": TypeRow(
        "numeric({},{})", ("numeric", "decimal"), "number", "a number, or a text that holds one", "(p,s)"
    ),
    "text": TypeRow("text", ("text",), "text", "a text"),
    "varchar": TypeRow("character varying({})", ("varchar", "character varying"), "text", "a text", "(n)"),
    "char": TypeRow("character({})", ("char", "character"), "text", "a text", "(n)"),
    "boolean": TypeRow("boolean", ("boolean", "bool"), "boolean", "`true`, `false`"),
    "bytea": TypeRow("bytea", ("bytea",), "bytes", "a text in base64"),
    "date": TypeRow("date", ("date",), "moment", "a text such as `2026-01-31`"),
    "time": TypeRow(
        "time without time zone", ("time", "time without time zone"), "time", "a text such as `23:59:59.5`"
    ),
    "timestamp": TypeRow(
        "timestamp without time zone",
        ("timestamp", "timestamp without time zone"),
        "moment",
        "a text such as `2026-01-31T23:59:59.5`, or a number with `unit`",
    ),
    "timestamptz": TypeRow(
        "timestamp with time zone",
        ("timestamptz", "timestamp with time zone"),
        "moment",
        "a text such as `2026-01-31T23:59:59.5Z` or `…+02:00`, or a number with `unit`",
    ),
    "uuid": TypeRow("uuid", ("uuid",), "uuid", "a text"),
    "json": TypeRow("json", ("json",), "document", "any JSON, kept as it is written"),
    "jsonb": TypeRow("jsonb", ("jsonb",), "document", "any JSON"),
}
FAMILIES: dict[str, Family] = {name: family for family, row in TYPES.items() for name in row.names}
ALLOWED_TYPES = ", ".join(f"{row.names[0]}{row.arguments}" for row in TYPES.values())
MAX_PRECISION = 76  # the digits of Arrow's widest decimal
MAX_SPARK_PRECISION = 38  # the digits of Spark's decimal
MAX_LENGTH = 10_485_760  # PostgreSQL's own limit
_TYPE = re.compile(r"(?P<name>[a-z][a-z0-9 ]*?) ?(?:\((?P<arguments>[^()]*)\))?")

ALLOWED_PATHS = "$ (the whole value), $.a.b, $['weird key']['x']; names only, no array indexes, wildcards or filters"
# A decoder nests one struct a step, and Python's recursion ends at about 300 structs.
MAX_STEPS = 100
_PLAIN = r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\-\u0080-\U0010ffff]*"
_STEP = re.compile(rf"""\.(?P<plain>{_PLAIN})|\['(?P<single>(?:[^'\\]|\\.)*)'\]|\["(?P<double>(?:[^"\\]|\\.)*)"\]""")


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column; `sql` is PostgreSQL's own spelling, `family` the type without its arguments."""

    sql: str
    family: Family
    precision: int | None = None
    scale: int | None = None
    length: int | None = None

    def __str__(self) -> str:
        return self.sql


def families_of(*groups: Group) -> tuple[Family, ...]:
    """List the families of some groups, in the order of the groups."""
    return tuple(family for group in groups for family, row in TYPES.items() if row.group == group)


# The checks of a declaration ask for the type of each column about nine times.
@lru_cache(maxsize=1_000)
def parse_type(text: str) -> ColumnType:
    """Parse a type as people write it; a ValueError describes the mistake and the allowed types."""
    form = _TYPE.fullmatch(" ".join(text.lower().split()))
    family = FAMILIES.get(form["name"]) if form else None
    if form is None or family is None:
        hint = suggest(form["name"] if form else text, FAMILIES)
        raise ValueError(f"unknown type {clip(text)}{hint}; allowed: {ALLOWED_TYPES}")
    arguments = form["arguments"]
    if family == "numeric":
        return _parse_numeric(text, arguments)
    if TYPES[family].arguments:
        return _parse_sized(text, family, arguments)
    if arguments is not None:
        raise ValueError(f"{clip(text)}: {form['name']} takes no arguments; allowed: {form['name']}")
    return ColumnType(TYPES[family].sql, family)


def _parse_numeric(text: str, arguments: str | None) -> ColumnType:
    numbers = _parse_numbers(arguments, 2)
    if numbers is None:
        raise ValueError(
            f"{clip(text)}: numeric needs a precision and a scale; allowed: numeric(p,s) such as numeric(12,2)"
        )
    precision, scale = numbers
    if not 1 <= precision <= MAX_PRECISION or scale > precision:
        raise ValueError(
            f"{clip(text)}: precision or scale out of range; "
            f"allowed: numeric(p,s) with p from 1 to {MAX_PRECISION} and s from 0 to p"
        )
    return ColumnType(TYPES["numeric"].sql.format(precision, scale), "numeric", precision=precision, scale=scale)


def _parse_sized(text: str, family: Family, arguments: str | None) -> ColumnType:
    numbers = _parse_numbers(arguments, 1)
    if numbers is None or not 1 <= numbers[0] <= MAX_LENGTH:
        raise ValueError(
            f"{clip(text)}: {family} needs a length; allowed: {family}(n) with n from 1 to {MAX_LENGTH}, "
            "or text for any length"
        )
    return ColumnType(TYPES[family].sql.format(numbers[0]), family, length=numbers[0])


def _parse_numbers(arguments: str | None, count: int) -> tuple[int, ...] | None:
    """Parse exactly `count` whole numbers of at most nine digits; every limit here is smaller."""
    if arguments is None or not re.fullmatch(r"\s*[0-9]{1,9}\s*(,\s*[0-9]{1,9}\s*)*", arguments):
        return None
    numbers = tuple(int(number) for number in arguments.split(","))
    return numbers if len(numbers) == count else None


def parse_path(text: str) -> tuple[str, ...]:
    """Parse a JSON path into its steps; `$` has none. A ValueError describes the mistake and the allowed paths."""
    if not text.startswith("$"):
        raise ValueError(f"{clip(text)} is not a valid JSON path: it must begin with $; allowed: {ALLOWED_PATHS}")
    steps: list[str] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            kind = "array index" if re.match(r"\[\s*-?[0-9]", text[at:]) else "step"
            raise ValueError(f"{clip(text)}: invalid {kind} {clip(text[at:])}; allowed: {ALLOWED_PATHS}")
        steps.append(_unescape(step["plain"], step["single"], step["double"]))
        at = step.end()
    return tuple(steps)


def format_path(steps: tuple[str, ...]) -> str:
    """Write steps as a path that `parse_path` reads back."""
    return "$" + "".join(f".{step}" if re.fullmatch(_PLAIN, step) else _quote(step) for step in steps)


def _unescape(plain: str | None, single: str | None, double: str | None) -> str:
    if plain is not None:
        return plain
    return re.sub(r"\\(.)", r"\1", single if single is not None else double or "", flags=re.DOTALL)


def _quote(step: str) -> str:
    escaped = step.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"
