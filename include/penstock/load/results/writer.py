"""Runs SQL of a declaration in the transaction of a publish, as a role that may touch the given relations only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

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
    # These count as operational errors for psycopg, and come again with each try.
    psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    psycopg.errors.TooManyArguments,
    psycopg.errors.TooManyColumns,
)


def run_as_writer(
    connection: Connection, statement: sql.Composable, reads: Sequence[str], writes: Sequence[str]
) -> None:
    """Run statements as the role of results; a ResultError has the server's words.

    The statements share the session with the loader. Anything that they leave there besides rows is refused, because
    the loader would meet it with its own rights: a temporary view named pg_class, or another prepared statement.
    """
    writer = sql.Identifier(RESULT_WRITER)
    for relation in reads:
        connection.execute(sql.SQL("grant select on {} to {}").format(sql.Identifier(relation), writer))
    for relation in writes:
        connection.execute(
            sql.SQL("grant select, insert, update, delete on {} to {}").format(sql.Identifier(relation), writer)
        )
    before = _read_session(connection)
    try:
        _run(connection, "run_result", statements=statement.as_string(connection))
    except OF_STATEMENTS as error:
        raise ResultError(describe_refusal(error)) from keep_cause(error)
    left = [name for name, value in _read_session(connection).items() if value != before[name]]
    if left:
        raise ResultError(f"its statements must write rows only, and they changed {' and '.join(left)} of the session")


def _read_session(connection: Connection) -> dict[str, object]:
    return _run(connection, "read_session", writer=RESULT_WRITER)


def _run(connection: Connection, name: str, **values: object) -> dict[str, object]:
    """Run a statement that psycopg never prepares.

    The statements could put another one under its name, and a name of psycopg's would look like one of theirs.
    """
    cursor = connection.cursor(row_factory=dict_row)
    return cursor.execute(_statements.texts[name].encode(), values, prepare=False).fetchone() or {}
