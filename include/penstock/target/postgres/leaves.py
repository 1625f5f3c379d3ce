"""The leaves of a target: partitions with the rows of one load, or of neighbouring loads that maintenance has merged.

To detach a leaf, or to move rows from one leaf to another, needs a moment alone with the target. The lock for it is
requested in short tries (`locks`), so that a reader with a short query never waits for a reader with a long one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from penstock import advice
from penstock.errors import PenstockError
from penstock.ledger import maintenance
from penstock.ledger.statements import Statements
from penstock.target.postgres.levels import Leaf
from penstock.target.postgres.locks import LockRequest, lock_in_tries
from penstock.target.postgres.rows import move_rows
from penstock.target.postgres.table import (
    KEPT_SCHEMA,
    OWN_SCHEMAS,
    Column,
    add_columns,
    find_default_partition,
    find_free_name,
    join_names,
    quote_target,
    read_columns,
    target_identifier,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.declaration.pipeline import Pipeline, Target
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load
    from penstock.model.ranges import Range

_statements = Statements("target/postgres/leaves")


@dataclass(frozen=True, slots=True)
class HoldingLeaf:
    """The leaf that holds the rows of a load, and whether it holds rows of this load only."""

    schema: str
    name: str
    is_exclusive: bool

    @property
    def table(self) -> sql.Identifier:
        """The leaf as a table."""
        return sql.Identifier(self.schema, self.name)


def read_leaves(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> list[Leaf]:
    """Read the leaves of the pipeline's target, in the order of their loads."""
    return maintenance.read_leaves(connection, Leaf, pipeline_id, quote_target(pipeline.target))


def create_leaf(connection: Connection, target: Target, table: sql.Identifier, from_load: int, until_load: int) -> None:
    """Create a table for the rows of some loads.

    Its CHECK on `_load_id` lets PostgreSQL attach the table later without reading it.
    """
    connection.execute(
        sql.SQL(
            "create table {} (like {} including defaults including storage including compression,"
            " check (_load_id >= {} and _load_id < {}))"
        ).format(table, target_identifier(target), sql.Literal(from_load), sql.Literal(until_load))
    )


def attach_as_leaf(connection: Connection, load: Load, table: sql.Identifier) -> None:
    """Move a table with the rows of a load into the target's schema, and attach it to the target."""
    target = load.declaration.target
    name = find_free_name(connection, target.schema_name, f"{target.table_name}_load_{load.load_id}")
    leaf = move_table(connection, table, target.schema_name, name)
    attach_leaf(connection, target, leaf, load.load_id, load.load_id + 1)


def attach_leaf(connection: Connection, target: Target, leaf: sql.Identifier, from_load: int, until_load: int) -> None:
    """Make a table a partition of the target. PostgreSQL does not read the table, because of its CHECK.

    PostgreSQL also locks the default partition, which a person may have created and which readers of the target read.
    So that lock is requested in short tries first.
    """
    for default in find_default_partition(connection, target):
        lock_in_tries(connection, LockRequest(default))
    connection.execute(
        sql.SQL("alter table {} attach partition {} for values from ({}) to ({})").format(
            target_identifier(target), leaf, sql.Literal(from_load), sql.Literal(until_load)
        )
    )


def add_missing_columns(connection: Connection, target: Target, table: sql.Identifier) -> None:
    """Add to a table the columns that the target received after the table was created: null in the rows it has."""
    # The same lock that ATTACH takes next: it keeps other sessions from adding a column in between.
    connection.execute(sql.SQL("lock table only {} in share update exclusive mode").format(target_identifier(target)))
    where = {"target": quote_target(target), "table": table.as_string(None)}
    missing = _statements.fetch_all(connection, Column, "find_missing_columns", **where)
    if missing:
        add_columns(connection, table, [(column.name, column.type) for column in missing])


def move_table(connection: Connection, table: sql.Identifier, schema: str, name: str) -> sql.Identifier:
    """Give a table another name in another schema.

    The rename happens in the schema that only Penstock writes to, where no other program has taken the name. Indexes
    whose names are taken in the new schema receive other names.
    """
    old_schema, old_name = table._obj
    where = {"table": table.as_string(None), "schema": schema}
    for index in _statements.fetch_values(connection, str, "find_taken_indexes", **where):
        free = find_free_name(connection, schema, f"{name}_{index}")
        connection.execute(
            sql.SQL("alter index {} rename to {}").format(sql.Identifier(old_schema, index), sql.Identifier(free))
        )
    rename, move = sql.SQL("alter table {} rename to {}"), sql.SQL("alter table {} set schema {}")
    if old_schema in OWN_SCHEMAS:
        connection.execute(rename.format(table, sql.Identifier(name)))
        connection.execute(move.format(sql.Identifier(old_schema, name), sql.Identifier(schema)))
    else:
        connection.execute(move.format(table, sql.Identifier(schema)))
        connection.execute(rename.format(sql.Identifier(schema, old_name), sql.Identifier(name)))
    return sql.Identifier(schema, name)


def end_merges(connection: Connection, target: Target) -> None:
    """End a merge that copies leaves of the target, before the leaves are changed. A merge can start again later.

    No other merge locks a leaf while the caller holds the lock of plan and publish.
    """
    _statements.execute(connection, "end_merges", target=quote_target(target))


def lock_target_alone(connection: Connection, load: Load, leaves: Sequence[sql.Identifier] = ()) -> None:
    """Hold the target alone until the transaction ends: earlier readers have ended, later readers wait for the COMMIT.

    PostgreSQL finds the partitions when it plans a query, and the visible rows when it runs the query. A query between
    the two would miss rows that leave one partition and appear in another.
    """
    target = load.declaration.target
    # To detach a leaf also locks the default partition.
    leaves = (*leaves, *find_default_partition(connection, target))
    lock_in_tries(connection, LockRequest(target_identifier(target), leaves, pipeline=load.pipeline, load=load.load_id))


def kept_table(load_id: int) -> sql.Identifier:
    """Name the table that keeps the rows of a load that was rolled back."""
    return sql.Identifier(KEPT_SCHEMA, _kept_name(load_id))


def _kept_name(load_id: int) -> str:
    return f"load_{load_id}"


def take_out(connection: Connection, load: Load, ranges: Iterable[Range]) -> None:
    """Move the rows of a load from the target into a table that keeps them; the ranges are those that it covers.

    A leaf of this load only is detached. From a merged leaf the rows are moved, and readers see them until the COMMIT.
    """
    target = load.declaration.target
    end_merges(connection, target)
    leaf = _find_leaf(connection, load)
    if leaf is None:
        raise PenstockError(
            f"no partition of {target} holds the load's rows: a person has detached or dropped the partition.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step=advice.LOOK_AT_PARTITIONS,
        )
    if not leaf.is_exclusive:
        kept = _create_kept_table(connection, load)
        for range_ in ranges:
            move_rows(connection, target_identifier(target), load.load_id, range_, into=kept)
        return
    lock_target_alone(connection, load, [leaf.table])
    connection.execute(sql.SQL("alter table {} detach partition {}").format(target_identifier(target), leaf.table))
    move_table(connection, leaf.table, KEPT_SCHEMA, _kept_name(load.load_id))


def put_back(connection: Connection, load: Load) -> None:
    """Return the kept rows of a load to the target: as a leaf, or into the merged leaf that covers the load now."""
    target = load.declaration.target
    end_merges(connection, target)
    kept = kept_table(load.load_id)
    lock_in_tries(connection, LockRequest(kept, pipeline=load.pipeline, load=load.load_id))
    add_missing_columns(connection, target, kept)
    if _find_leaf(connection, load):
        _insert_kept(connection, target, kept)
        return
    attach_as_leaf(connection, load, kept)


def _find_leaf(connection: Connection, load: Load) -> HoldingLeaf | None:
    where = {"target": quote_target(load.declaration.target), "load_id": load.load_id}
    return _statements.fetch_one(connection, HoldingLeaf, "find_leaf", **where)


def _create_kept_table(connection: Connection, load: Load) -> sql.Identifier:
    kept = kept_table(load.load_id)
    connection.execute(
        sql.SQL("create table {} (like {} including defaults including storage including compression)").format(
            kept, target_identifier(load.declaration.target)
        )
    )
    return kept


def _insert_kept(connection: Connection, target: Target, kept: sql.Identifier) -> None:
    columns = join_names(read_columns(connection, target))
    connection.execute(
        sql.SQL("insert into {} ({columns}) select {columns} from {}").format(
            target_identifier(target), kept, columns=columns
        )
    )
    connection.execute(sql.SQL("drop table {}").format(kept))
