"""The leaves of a target: partitions that hold the rows of one load, or of neighbours that maintenance has merged.

Taking a leaf off, or rows from one leaf to another, needs a moment alone with the target. It is asked for in short
tries, so that readers who come meanwhile never wait for one who reads for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from penstock import advice
from penstock.errors import PenstockError
from penstock.ledger.coverage import run, run_on_range
from penstock.target.postgres.brief_locks import Wanted, lock_in_tries
from penstock.target.postgres.row_hash import describe_rows
from penstock.target.postgres.table import (
    KEPT_SCHEMA,
    add_missing_columns,
    attach_as_leaf,
    find_default,
    make_way,
    move_table,
    read_columns,
    target_identifier,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.ledger.connection import Connection
    from penstock.model.load import Load
    from penstock.model.ranges import Range


@dataclass(frozen=True, slots=True)
class Leaf:
    """A partition of the target, and whether it holds one load only."""

    table: sql.Identifier
    own: bool


def kept_table(load_id: int) -> sql.Identifier:
    """Name the table that keeps the rows of a load that was rolled back."""
    return sql.Identifier(KEPT_SCHEMA, _kept_name(load_id))


def _kept_name(load_id: int) -> str:
    return f"load_{load_id}"


def take_out(connection: Connection, load: Load, ranges: Iterable[Range]) -> None:
    """Move the rows of a load, which are those of the ranges, out of the target into a table that keeps them.

    Its own leaf goes as it is. From a merged one the rows are moved: whoever reads meanwhile sees them by its snapshot.
    """
    make_way(connection, load.declaration.target)
    leaf = _find_leaf(connection, load)
    if leaf is None:
        raise PenstockError(
            f"no partition of {load.declaration.target} holds the load's rows.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step=advice.LOOK_AT_PARTITIONS,
        )
    if not leaf.own:
        _move_out(connection, load, ranges)
        return
    wait_to_be_alone(connection, load, [leaf.table])
    connection.execute(
        sql.SQL("alter table {} detach partition {}").format(target_identifier(load.declaration.target), leaf.table)
    )
    move_table(connection, leaf.table, KEPT_SCHEMA, _kept_name(load.load_id))


def put_back(connection: Connection, load: Load) -> None:
    """Move the kept rows of a load back into the target: as a leaf, or into the one that has its place by now."""
    target = load.declaration.target
    make_way(connection, target)
    kept = kept_table(load.load_id)
    lock_in_tries(connection, Wanted(kept, pipeline=load.pipeline, load=load.load_id))
    add_missing_columns(connection, target, kept)
    if _find_leaf(connection, load):
        _insert_kept(connection, load)
        return
    attach_as_leaf(connection, load, kept)


def wait_to_be_alone(connection: Connection, load: Load, leaves: Sequence[sql.Identifier] = ()) -> None:
    """Hold the target alone until the transaction ends: whoever reads it has ended, whoever comes waits for the COMMIT.

    PostgreSQL looks up which partitions there are when it plans a query, and which rows are visible when it runs it. A
    query between the two would miss rows that leave one partition and come back in another.
    """
    target = load.declaration.target
    # Detaching a leaf locks the default partition too.
    leaves = (*leaves, *find_default(connection, target))
    wanted = Wanted(target_identifier(target), leaves, pipeline=load.pipeline, load=load.load_id)
    lock_in_tries(connection, wanted)


def _find_leaf(connection: Connection, load: Load) -> Leaf | None:
    target = target_identifier(load.declaration.target).as_string(None)
    row = run(connection, "find_leaf", target=target, load_id=load.load_id).fetchone()
    return Leaf(sql.Identifier(row["schema"], row["name"]), row["own"]) if row else None


def _move_out(connection: Connection, load: Load, ranges: Iterable[Range]) -> None:
    kept = kept_table(load.load_id)
    connection.execute(
        sql.SQL("create table {} (like {} including defaults including storage including compression)").format(
            kept, target_identifier(load.declaration.target)
        )
    )
    for range_ in ranges:
        run_on_range(connection, "move_out", load.load_id, range_, **describe_rows(load), kept=kept)


def _insert_kept(connection: Connection, load: Load) -> None:
    target, kept = load.declaration.target, kept_table(load.load_id)
    columns = sql.SQL(", ").join(map(sql.Identifier, read_columns(connection, target)))
    connection.execute(
        sql.SQL("insert into {} ({columns}) select {columns} from {}").format(
            target_identifier(target), kept, columns=columns
        )
    )
    connection.execute(sql.SQL("drop table {}").format(kept))
