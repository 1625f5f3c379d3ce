"""The table of one attempt: created empty, filled by Spark tasks, sealed, and published as a leaf of the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock import advice
from penstock.errors import StageError
from penstock.ledger.maintenance import find_stale_tables
from penstock.ledger.roles import CHECKER
from penstock.ledger.statements import Statements
from penstock.target.postgres.leaves import add_missing_columns, attach_as_leaf, create_leaf, lock_target_alone
from penstock.target.postgres.locks import LockRequest, lock_in_tries
from penstock.target.postgres.lookup_index import create_lookup_indexes
from penstock.target.postgres.table import STAGE_SCHEMA, join_names

if TYPE_CHECKING:
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

# For the sort of the primary key, in kB; docs/explanation/speed.md has the figures.
LEAST_SORT_MEMORY, MOST_SORT_MEMORY = 256 * 1024, 2048 * 1024

_statements = Statements("target/postgres/attempt")


def attempt_table_name(load_id: int, attempt: int) -> str:
    """Name the table of one attempt, without its schema."""
    return f"load_{load_id}_{attempt}"


def attempt_table(load_id: int, attempt: int) -> sql.Identifier:
    """Name the table of one attempt."""
    return sql.Identifier(STAGE_SCHEMA, attempt_table_name(load_id, attempt))


def create_attempt_table(connection: Connection, load: Load, attempt: int) -> None:
    """Create the table of one attempt."""
    table = attempt_table(load.load_id, attempt)
    create_leaf(connection, load.declaration.target, table, load.load_id, load.load_id + 1)
    # Autovacuum would read the growing table several times during a slow load, 0.1 to 0.4 us a row each time. `seal`
    # counts the rows for the planner, and publishing lets autovacuum in.
    connection.execute(sql.SQL("alter table {} set (autovacuum_enabled = false)").format(table))


def end_losing_tries(connection: Connection, load: Load, attempt: int) -> None:
    """End the sessions of stage tasks that still hold the table after another try has written every chunk.

    Such a session would keep the primary key from being built.
    """
    table = attempt_table(load.load_id, attempt).as_string(None)
    _statements.execute(connection, "end_losing_tries", table=table)


def key_attempt_table(connection: Connection, load: Load, attempt: int) -> None:
    """Build the primary key and the indexes over the staged rows, and count the rows for the planner.

    The key proves that no offset was staged twice. It is built once over all rows, which costs less than updating it
    with every row.
    """
    table = attempt_table(load.load_id, attempt)
    _statements.execute(connection, "raise_sort_memory", least=LEAST_SORT_MEMORY, most=MOST_SORT_MEMORY)
    try:
        connection.execute(sql.SQL("alter table {} add primary key (_partition, _offset)").format(table))
    except psycopg.errors.UniqueViolation as error:
        raise StageError(
            f"attempt {attempt} staged an offset twice: {error.diag.message_detail}",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.KEEP_ATTEMPT_AND_REPORT,
        ) from error
    for columns in load.declaration.indexes:
        connection.execute(sql.SQL("create index on {} ({})").format(table, join_names(columns)))
    create_lookup_indexes(connection, load.declaration, table)
    connection.execute(sql.SQL("analyze {}").format(table))


def publish_attempt_table(connection: Connection, load: Load) -> None:
    """Make the rows of a load visible: the table of its current attempt becomes a partition of the target.

    PostgreSQL reads no row for it. A replay is alone with the target before that, because its transaction has deleted
    the rows that the new rows replace.
    """
    if load.kind == "replay":
        lock_target_alone(connection, load)
    table = attempt_table(load.load_id, load.attempt)
    lock_in_tries(connection, LockRequest(table, pipeline=load.pipeline, load=load.load_id))
    add_missing_columns(connection, load.declaration.target, table)
    revoke_checks(connection, load)
    connection.execute(sql.SQL("alter table {} reset (autovacuum_enabled)").format(table))
    attach_as_leaf(connection, load, table)


def revoke_checks(connection: Connection, load: Load) -> None:
    """Take the right to read the current attempt's table from the role of the checks, if the role has the right."""
    table = attempt_table(load.load_id, load.attempt)
    if _statements.fetch_value(connection, bool, "is_granted", table=table.as_string(None), role=CHECKER):
        connection.execute(sql.SQL("revoke select on {} from {}").format(table, sql.Identifier(CHECKER)))


def sweep_attempt_tables(connection: Connection) -> list[str]:
    """Drop the tables of attempts that no load needs any more, and name the tables.

    A stopped attempt may still write to its table; the next sweep drops that table.
    """
    swept = []
    for name in find_stale_tables(connection):
        try:
            with connection.transaction():
                connection.execute("set local lock_timeout = '200ms'")
                table = sql.Identifier(STAGE_SCHEMA, name)
                connection.execute(sql.SQL("drop table if exists {}").format(table))
                swept.append(name)
        except psycopg.errors.LockNotAvailable:
            continue
    return swept
