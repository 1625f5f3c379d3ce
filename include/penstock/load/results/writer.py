"""Runs SQL of a declaration in the transaction of a publish, as a role that may touch the given relations only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock.errors import ResultError
from penstock.ledger.connection import describe_refusal, keep_cause
from penstock.ledger.roles import RESULT_WRITER
from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ledger.connection import Connection

_statements = Statements("load/results/writer")

# Errors of the statements themselves. A broken connection or a lock does not hold a load.
OF_STATEMENTS = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.InternalError,
    psycopg.NotSupportedError,
    psycopg.ProgrammingError,
)


def run_as_writer(
    connection: Connection, statement: sql.Composable, reads: Sequence[str], writes: Sequence[str]
) -> None:
    """Run statements as the role of results; a ResultError has the server's words."""
    writer = sql.Identifier(RESULT_WRITER)
    for relation in reads:
        connection.execute(sql.SQL("grant select on {} to {}").format(sql.Identifier(relation), writer))
    for relation in writes:
        connection.execute(
            sql.SQL("grant select, insert, update, delete on {} to {}").format(sql.Identifier(relation), writer)
        )
    try:
        _statements.execute(connection, "run_result", statements=statement.as_string(connection))
    except OF_STATEMENTS as error:
        raise ResultError(describe_refusal(error)) from keep_cause(error)
