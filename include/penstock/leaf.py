"""The leaves of a target: partitions that hold the rows of a load, or of several that were merged.

Taking a leaf off needs a moment alone with the target. It is asked for in short tries, so that readers who come
meanwhile never wait for one who reads for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from penstock.errors import PenstockError
from penstock.statements import read_statements
from penstock.target import attach_leaf, describe_columns, leaf_name, move_table, target_identifier, type_sql
from penstock.waiting import wait_until

if TYPE_CHECKING:
    from penstock.ledger import Connection, Load

KEPT_SCHEMA = "penstock_kept"
TRY_MILLISECONDS, TRY_SECONDS = 300, 30


@dataclass(frozen=True, slots=True)
class Leaf:
    """A partition of the target, and whether it holds one load only."""

    name: sql.Identifier
    own: bool


def kept_table(load_id: int) -> sql.Identifier:
    """Name the table that keeps the rows of a load that was rolled back."""
    return sql.Identifier(KEPT_SCHEMA, _kept_name(load_id))


def _kept_name(load_id: int) -> str:
    return f"load_{load_id}"


def find_leaf(connection: Connection, load: Load) -> Leaf | None:
    """Find the leaf whose bounds hold a load."""
    target = target_identifier(load.declaration.target).as_string(None)
    row = (
        connection.cursor(row_factory=dict_row)
        .execute(read_statements("coverage")["find_leaf"], {"target": target, "load_id": load.load_id})
        .fetchone()
    )
    if row is None:
        return None
    own = row["from_load"] == load.load_id and row["until_load"] == load.load_id + 1
    return Leaf(sql.Identifier(row["schema"], row["name"]), own)


def take_out(connection: Connection, load: Load) -> None:
    """Move the rows of a load out of the target, into a table that keeps them."""
    leaf = find_leaf(connection, load)
    if leaf is None:
        raise PenstockError(
            f"no partition of {load.declaration.target} holds the load's rows.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step="somebody has detached or dropped it by hand; look at the partitions of the target.",
        )
    if leaf.own:
        _detach(connection, load, leaf)
        move_table(connection, leaf.name, KEPT_SCHEMA, _kept_name(load.load_id))
    else:
        _copy_out(connection, load)


def put_back(connection: Connection, load: Load) -> None:
    """Move the kept rows of a load back into the target."""
    target = load.declaration.target
    if find_leaf(connection, load) is not None:
        columns = sql.SQL(", ").join(map(sql.Identifier, describe_columns(load.declaration)))
        connection.execute(
            sql.SQL("insert into {target} ({columns}) select {columns} from {kept}").format(
                target=target_identifier(target), columns=columns, kept=kept_table(load.load_id)
            )
        )
        connection.execute(sql.SQL("drop table {}").format(kept_table(load.load_id)))
        return
    _add_missing_columns(connection, load)
    name = leaf_name(load)
    move_table(connection, kept_table(load.load_id), target.schema_name, name)
    attach_leaf(connection, load, sql.Identifier(target.schema_name, name))


def _detach(connection: Connection, load: Load, leaf: Leaf) -> None:
    detached = wait_until(lambda: _try_detach(connection, load, leaf), seconds=TRY_SECONDS, every=0.5)
    if not detached:
        raise PenstockError(
            f"readers held {load.declaration.target} for {TRY_SECONDS} s without a pause; nothing is taken out.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step="see pg_stat_activity for long transactions on the table, then try again.",
        )


def _try_detach(connection: Connection, load: Load, leaf: Leaf) -> bool:
    statement = sql.SQL("alter table {} detach partition {}")
    try:
        with connection.transaction():
            connection.execute(sql.SQL("set local lock_timeout = {}").format(sql.Literal(f"{TRY_MILLISECONDS}ms")))
            connection.execute(statement.format(target_identifier(load.declaration.target), leaf.name))
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _copy_out(connection: Connection, load: Load) -> None:
    values = {"kept": kept_table(load.load_id), "target": target_identifier(load.declaration.target)}
    connection.execute(
        sql.SQL(
            "create table {kept} (like {target} including defaults including storage including compression)"
        ).format(**values)
    )
    connection.execute(
        sql.SQL("insert into {kept} select * from {target} where _load_id = {load}").format(
            **values, load=sql.Literal(load.load_id)
        )
    )
    connection.execute(
        sql.SQL("delete from {target} where _load_id = {load}").format(**values, load=sql.Literal(load.load_id))
    )


def _add_missing_columns(connection: Connection, load: Load) -> None:
    """A column that the target gained meanwhile is null in rows from before it."""
    found = connection.execute(
        read_statements("coverage")["find_missing_columns"],
        {
            "target": target_identifier(load.declaration.target).as_string(None),
            "kept": kept_table(load.load_id).as_string(None),
        },
    ).fetchall()
    for name, type_ in found:
        connection.execute(
            sql.SQL("alter table {} add column {} {}").format(
                kept_table(load.load_id), sql.Identifier(name), type_sql(type_)
            )
        )
