"""Results: tables that Penstock derives from the rows of the target, in the transaction that publishes the rows."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, StrictInt, StrictStr, WithJsonSchema

from penstock.declaration.columns import families_of, parse_type
from penstock.declaration.mistakes import Mistake, Place, clip, suggest
from penstock.declaration.parts import STRICT, TargetField

_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,62}")
_ALLOWED_NAME = "a lower-case letter, then lower-case letters, digits and _, at most 63 characters"
MODES = ("upsert", "sql")
# The value of `deleted_when` that stands for records without value.
TOMBSTONE = "tombstone"


def _read_columns(given: object) -> object:
    """Turn the mapping of YAML into a list, because the ledger's jsonb does not keep the order of names."""
    return list(given.items()) if isinstance(given, Mapping) else given


# Pairs of a column of the result, and its source: a column of the target (upsert) or a type (sql).
ResultColumns = Annotated[
    tuple[tuple[StrictStr, StrictStr], ...],
    BeforeValidator(_read_columns),
    PlainSerializer(lambda pairs: [list(pair) for pair in pairs], return_type=list),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}}),
]


class Result(BaseModel):
    """One table that is derived from the rows."""

    model_config = STRICT

    table: TargetField = Field(description="The table of the result, schema.table; Penstock creates it.")
    mode: Literal["upsert", "sql"] = Field(
        description="upsert keeps the newest row of each key; sql runs statements over the added and removed rows"
    )
    key: Annotated[tuple[StrictStr, ...], Field(min_length=1, max_length=32)] = Field(
        description="The columns of the primary key. With upsert, columns of the target: a record whose texts take "
        "over 2,600 bytes together goes to the quarantine."
    )
    columns: ResultColumns | None = Field(
        default=None,
        description="upsert: a mapping of column names to columns of the target; without it, all declared columns. "
        "sql: a mapping of column names to types.",
    )
    deleted_when: StrictStr | None = Field(
        default=None,
        description="upsert: a condition in SQL over the columns of the row, such as op = 'D', or tombstone for a "
        "record without value; the row deletes its key",
    )
    guards_days: Annotated[StrictInt, Field(ge=1, le=36_500)] | None = Field(
        default=400,
        description="upsert: how many days a deleted key is remembered, so that no older record brings it back; "
        "null for ever",
    )
    check: StrictStr | None = Field(
        default=None,
        description="sql: a query over `rows`, the rows of the target, whose columns and rows are those of the table; "
        "`penstock verify` compares them",
    )
    sql: StrictStr | None = Field(default=None, description="sql: the file of the statements, in the folder results")
    statements: StrictStr | None = Field(default=None, description="sql: the statements themselves, without a file")

    def derives_like(self, other: Self) -> bool:
        """Whether two definitions give the same table from the same rows."""
        return self == other.model_copy(update={"guards_days": self.guards_days})


def find_result_mistakes(written: Mapping[str, Any], names: list[str], types: Mapping[str, Any]) -> Iterator[Mistake]:
    """Find results that no table can hold: unknown columns, a table that is declared twice, a missing part."""
    results = written.get("results")
    if written.get("keep_rows_days") is not None and not results:
        yield Mistake(("keep_rows_days",), "drops rows of which nothing is left; allowed: with results")
    seen = [str(written.get("target"))]
    for at, result in enumerate(results if isinstance(results, (list, tuple)) else ()):
        if not isinstance(result, Mapping):
            continue
        table = str(result.get("table"))
        if table in seen:
            what = f"{clip(table)} is declared twice; allowed: each table once, the target included"
            yield Mistake(("results", at, "table"), what)
        seen.append(table)
        own = _find_upsert_mistakes if result.get("mode") == "upsert" else _find_sql_mistakes
        for place, what in [*_find_name_mistakes(result), *own(result, names, types)]:
            yield Mistake(("results", at, *place), what)


def _find_name_mistakes(result: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    named: list[str] = [*_key(result)] if result.get("mode") == "upsert" else []
    for name, _ in _pairs(result):
        if not _IDENTIFIER.fullmatch(name):
            yield ("columns", name), f"{clip(name)} is not a valid column name; allowed: {_ALLOWED_NAME}"
        if name in named:
            yield ("columns", name), f"the column {clip(name)} is declared twice; allowed: each name once"
        named.append(name)


def _find_upsert_mistakes(
    result: Mapping[str, Any], names: list[str], types: Mapping[str, Any]
) -> Iterator[tuple[Place, str]]:
    for name in ("sql", "statements", "check"):
        if result.get(name) is not None:
            yield (name,), "has no effect on mode: upsert; allowed: with mode: sql"
    for at, name in enumerate(_key(result)):
        if name not in names:
            what = f"unknown column {clip(name)}{suggest(name, names)}; allowed: {', '.join(names)}"
            yield ("key", at), what
        elif name in types and types[name].family in families_of("document"):
            what = f"{clip(name)} is {types[name]}, whose values cannot be compared; allowed: columns of other types"
            yield ("key", at), what
    for name, source in _pairs(result):
        if source not in names:
            what = f"unknown column {clip(source)}{suggest(source, names)}; allowed: {', '.join(names)}"
            yield ("columns", name), what


def _find_sql_mistakes(
    result: Mapping[str, Any], _names: list[str], _types: Mapping[str, Any]
) -> Iterator[tuple[Place, str]]:
    if result.get("mode") != "sql":
        return
    if result.get("deleted_when") is not None:
        yield ("deleted_when",), "has no effect on mode: sql; allowed: with mode: upsert"
    if not isinstance(result.get("statements"), str):
        yield ("sql",), "is missing; allowed: the name of a file in the folder results, or `statements`"
    pairs = _pairs(result)
    if not pairs:
        yield ("columns",), "is missing; allowed: a mapping of column names to types"
    for name, type_ in pairs:
        try:
            parse_type(type_)
        except ValueError as error:
            yield ("columns", name), str(error)
    declared = [name for name, _ in pairs]
    for at, name in enumerate(_key(result)):
        if name not in declared:
            yield ("key", at), f"unknown column {clip(name)}{suggest(name, declared)}; allowed: {', '.join(declared)}"


def _key(result: Mapping[str, Any]) -> list[str]:
    key = result.get("key")
    return [name for name in key if isinstance(name, str)] if isinstance(key, (list, tuple)) else []


def _pairs(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    columns = result.get("columns")
    pairs = list(columns.items()) if isinstance(columns, Mapping) else columns
    found = pairs if isinstance(pairs, (list, tuple)) else ()
    return [(str(pair[0]), str(pair[1])) for pair in found if isinstance(pair, (list, tuple)) and len(pair) == 2]
