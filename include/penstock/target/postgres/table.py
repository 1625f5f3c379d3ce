"""The target table in PostgreSQL: its name, its columns, and names for what is created beside the target."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from penstock import advice
from penstock.declaration.carried import carried_columns
from penstock.declaration.columns import parse_type
from penstock.errors import PenstockError
from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.declaration.pipeline import Pipeline, Target
    from penstock.ledger.connection import Connection

# The schemas that only Penstock writes to: tables of attempts and merges, and rows of loads that were rolled back.
STAGE_SCHEMA, KEPT_SCHEMA, RESULT_SCHEMA = "penstock_stage", "penstock_kept", "penstock_results"
OWN_SCHEMAS = (STAGE_SCHEMA, KEPT_SCHEMA)
MAX_NAME_BYTES = 63
MAX_NAME_TRIES = 1000

_statements = Statements("target/postgres/table")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, with its type in PostgreSQL's spelling."""

    name: str
    type: str
    not_null: bool = False


def make_identifier(schema: str, name: str) -> sql.Identifier:
    """Name a table."""
    return sql.Identifier(schema, name)


def target_identifier(target: Target) -> sql.Identifier:
    """Name the target table."""
    return sql.Identifier(target.schema_name, target.table_name)


def quote_target(target: Target) -> str:
    """Name the target table as text, for `to_regclass`."""
    return target_identifier(target).as_string(None)


def describe_columns(pipeline: Pipeline) -> dict[str, tuple[str, bool]]:
    """List the columns that the target must have: by name, PostgreSQL's spelling of the type, and whether not null."""
    declared = {column.name: (column.type.sql, column.required) for column in pipeline.columns}
    carried = carried_columns(pipeline.key, pipeline.tombstones)
    return declared | {column.name: (column.type.sql, column.required) for column in carried}


def read_columns(connection: Connection, target: Target) -> dict[str, tuple[str, bool]]:
    """Read the columns that the target has, in the form of `describe_columns`; empty if the table does not exist."""
    where = {"schema": target.schema_name, "table": target.table_name}
    columns = _statements.fetch_all(connection, Column, "read_columns", **where)
    return {column.name: (column.type, column.not_null) for column in columns}


def find_default_partition(connection: Connection, target: Target) -> tuple[sql.Identifier, ...]:
    """Find the default partition of the target; an empty tuple if there is none. Only a person can have created it."""
    where = {"target": quote_target(target)}
    return tuple(_statements.fetch_all(connection, make_identifier, "find_default_partition", **where))


def add_columns(connection: Connection, table: sql.Identifier, columns: Iterable[tuple[str, str]]) -> None:
    """Add nullable columns to a table, each given as a name and a type."""
    added = sql.SQL(", ").join(
        sql.SQL("add column {} {}").format(sql.Identifier(name), type_sql(type_)) for name, type_ in columns
    )
    connection.execute(sql.SQL("alter table {} {}").format(table, added))


def type_sql(type_: str) -> sql.SQL:
    """Turn a type into SQL. The type is parsed again, so that only spellings that Penstock knows reach a statement."""
    return sql.SQL(parse_type(type_).sql)


def join_names(columns: Iterable[str]) -> sql.Composed:
    """Join column names with commas."""
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def find_free_name(connection: Connection, schema: str, wanted: str) -> str:
    """Find a name that no table, index or type of the schema has: the wanted one, or the wanted one with a number."""
    names = [shorten(wanted), *(shorten(f"{wanted}_{number}") for number in range(2, MAX_NAME_TRIES))]
    free = _statements.fetch_values(connection, str, "find_free_name", schema=schema, names=names)
    if not free:
        raise PenstockError(
            f"the schema {schema} has {len(names)} tables, indexes or types with names like {wanted}.",
            next_step=advice.RENAME_TABLES,
        )
    return free[0]


def shorten(name: str) -> str:
    """Fit a name into PostgreSQL's 63 bytes; a longer name keeps its beginning and ends in a hash of the whole name."""
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return name.encode()[: MAX_NAME_BYTES - 9].decode(errors="ignore") + "_" + digest
