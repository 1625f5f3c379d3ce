"""Results by statements: SQL of the declaration over the added and the removed rows, such as running totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from penstock.ledger.statements import Statements
from penstock.load.results.writer import run_as_writer
from penstock.target.postgres.table import join_names, type_sql

if TYPE_CHECKING:
    from penstock.declaration.results import Result
    from penstock.ledger.connection import Connection
    from penstock.load.results.change import Change

_statements = Statements("load/results/statements")


def create_table(connection: Connection, result: Result, table: sql.Identifier) -> None:
    """Create the table, empty."""
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), type_sql(type_)) for name, type_ in result.columns or ()
    )
    connection.execute(sql.SQL("create table {} ({}, primary key ({}))").format(table, columns, join_names(result.key)))


def apply_statements(connection: Connection, result: Result, table: sql.Identifier, change: Change) -> None:
    """Run the statements over the rows that a transaction adds and removes. They know the table as `result`."""
    pieces = {
        "target": change.target,
        "is_added": change.select_added(),
        "removed": change.removed or change.target,
        "is_removed": change.select_removed(),
        "table": table,
        "columns": join_names(name for name, _ in result.columns or ()),
    }
    for name in ("name_added", "name_removed", "name_result"):
        _statements.execute(connection, name, pieces)
    run_as_writer(connection, sql.SQL(result.statements or ""), reads=["added", "removed"], writes=["result"])
    _statements.execute(connection, "drop_names")
