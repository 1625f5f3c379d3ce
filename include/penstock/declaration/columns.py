"""The types of columns: read from a declaration, spelled as PostgreSQL spells them.

No pyarrow here: Airflow imports this module whenever it parses the DAGs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from penstock.declaration.wording import clip, meant

Family = Literal[
    "smallint", "integer", "bigint", "real", "double", "numeric", "text", "varchar", "char",
    "boolean", "bytea", "date", "time", "timestamp", "timestamptz", "uuid", "json", "jsonb",
]  # fmt: skip

# As format_type() of PostgreSQL prints them; {} takes the arguments.
SPELLINGS: dict[Family, str] = {
    "smallint": "smallint",
    "integer": "integer",
    "bigint": "bigint",
    "real": "real",
    "double": "double precision",
    "numeric": "numeric({},{})",
    "text": "text",
    "varchar": "character varying({})",
    "char": "character({})",
    "boolean": "boolean",
    "bytea": "bytea",
    "date": "date",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "uuid": "uuid",
    "json": "json",
    "jsonb": "jsonb",
}
ALIASES: dict[str, Family] = {
    "int2": "smallint",
    "int": "integer",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double",
    "double precision": "double",
    "decimal": "numeric",
    "character varying": "varchar",
    "character": "char",
    "bool": "boolean",
    "time without time zone": "time",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
}
FAMILIES: dict[str, Family] = {**{name: name for name in SPELLINGS if name != "double"}, **ALIASES}
ALLOWED = (
    "smallint, integer (int, int4), bigint (int8), real, double precision, numeric(p,s), text, varchar(n), char(n), "
    "boolean, bytea, date, time, timestamp, timestamptz, uuid, json, jsonb"
)
MAX_PRECISION = 76  # what Arrow's widest decimal holds
MAX_LENGTH = 10_485_760  # PostgreSQL's own bound
_FORM = re.compile(r"(?P<name>[a-z][a-z0-9 ]*?) ?(?:\((?P<arguments>[^()]*)\))?")


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


def parse_type(text: str) -> ColumnType:
    """Parse a type as people write it; a ValueError says what is allowed."""
    form = _FORM.fullmatch(" ".join(text.lower().split()))
    family = FAMILIES.get(form["name"]) if form else None
    if form is None or family is None:
        raise ValueError(f"no type {clip(text)}{meant(form['name'] if form else text, FAMILIES)}; allowed: {ALLOWED}")
    arguments = form["arguments"]
    if family == "numeric":
        return _numeric(text, arguments)
    if family in ("varchar", "char"):
        return _sized(text, family, arguments)
    if arguments is not None:
        raise ValueError(f"{clip(text)}: {form['name']} takes no arguments; allowed: {form['name']}")
    return ColumnType(SPELLINGS[family], family)


def _numeric(text: str, arguments: str | None) -> ColumnType:
    numbers = _numbers(arguments, 2)
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
    return ColumnType(SPELLINGS["numeric"].format(precision, scale), "numeric", precision=precision, scale=scale)


def _sized(text: str, family: Family, arguments: str | None) -> ColumnType:
    numbers = _numbers(arguments, 1)
    if numbers is None or not 1 <= numbers[0] <= MAX_LENGTH:
        raise ValueError(
            f"{clip(text)}: {family} needs a length; allowed: {family}(n) with n from 1 to {MAX_LENGTH}, "
            "or text for any length"
        )
    return ColumnType(SPELLINGS[family].format(numbers[0]), family, length=numbers[0])


def _numbers(arguments: str | None, count: int) -> tuple[int, ...] | None:
    """Read exactly so many whole numbers; nine digits are more than any bound here."""
    if arguments is None or not re.fullmatch(r"\s*[0-9]{1,9}\s*(,\s*[0-9]{1,9}\s*)*", arguments):
        return None
    numbers = tuple(int(number) for number in arguments.split(","))
    return numbers if len(numbers) == count else None
