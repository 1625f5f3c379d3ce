"""The leaves of a target: each partition holds the rows of one load.

Taking rows out of leaves needs a moment alone with the target. It is asked for in short tries, so that readers who come
meanwhile never wait for one who reads for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock.coverage import run
from penstock.errors import PenstockError
from penstock.target import attach_leaf, leaf_name, move_table, target_identifier, type_sql
from penstock.waiting import wait_until

if TYPE_CHECKING:
    from penstock.ledger import Connection, Load

KEPT_SCHEMA = "penstock_kept"
TRY_MILLISECONDS, TRY_SECONDS = 300, 30


def kept_table(load_id: int) -> sql.Identifier:
    """Name the table that keeps the rows of a load that was rolled back."""
    return sql.Identifier(KEPT_SCHEMA, _kept_name(load_id))


def _kept_name(load_id: int) -> str:
    return f"load_{load_id}"


def take_out(connection: Connection, load: Load) -> None:
    """Move the rows of a load out of the target, into a table that keeps them."""
    target = target_identifier(load.declaration.target).as_string(None)
    row = run(connection, "find_leaf", target=target, load_id=load.load_id).fetchone()
    if row is None:
        raise PenstockError(
            f"no partition of {load.declaration.target} holds the load's rows.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step="somebody has detached or dropped it by hand; look at the partitions of the target.",
        )
    leaf = sql.Identifier(row["schema"], row["name"])
    wait_to_be_alone(connection, load)
    connection.execute(
        sql.SQL("alter table {} detach partition {}").format(target_identifier(load.declaration.target), leaf)
    )
    move_table(connection, leaf, KEPT_SCHEMA, _kept_name(load.load_id))


def put_back(connection: Connection, load: Load) -> None:
    """Move the kept rows of a load back into the target."""
    target = load.declaration.target
    _add_missing_columns(connection, load)
    name = leaf_name(load)
    move_table(connection, kept_table(load.load_id), target.schema_name, name)
    attach_leaf(connection, load, sql.Identifier(target.schema_name, name))


def wait_to_be_alone(connection: Connection, load: Load) -> None:
    """Hold the target alone until the transaction ends: whoever reads it has ended, whoever comes waits for the COMMIT.

    PostgreSQL looks up which partitions there are when it plans a query, and which rows are visible when it runs it. A
    query between the two would miss rows that leave one partition and come back in another.
    """
    alone = wait_until(lambda: _try_lock(connection, load), seconds=TRY_SECONDS, every=0.5)
    if not alone:
        raise PenstockError(
            f"readers held {load.declaration.target} for {TRY_SECONDS} s without a pause; nothing is changed.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step="see pg_stat_activity for long transactions on the table, then try again.",
        )


def _try_lock(connection: Connection, load: Load) -> bool:
    lock = sql.SQL("lock table only {} in access exclusive mode")
    try:
        with connection.transaction():
            connection.execute(sql.SQL("set local lock_timeout = {}").format(sql.Literal(f"{TRY_MILLISECONDS}ms")))
            connection.execute(lock.format(target_identifier(load.declaration.target)))
            connection.execute("reset lock_timeout")
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _add_missing_columns(connection: Connection, load: Load) -> None:
    """A column that the target gained meanwhile is null in rows from before it."""
    missing = run(
        connection,
        "find_missing_columns",
        target=target_identifier(load.declaration.target).as_string(None),
        kept=kept_table(load.load_id).as_string(None),
    )
    for column in missing.fetchall():
        connection.execute(
            sql.SQL("alter table {} add column {} {}").format(
                kept_table(load.load_id), sql.Identifier(column["name"]), type_sql(column["type"])
            )
        )
