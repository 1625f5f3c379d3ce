"""Merging: neighbouring leaves are copied into one, which then takes their place in a moment.

It is two transactions. The first holds the leaves as they are, copies them inside the server into a table beside the
target, builds the indexes, and commits: from then on every new snapshot sees the rows. The second takes hold of the
leaves before the first lets go of them, so that nothing has to be compared in the end. It waits until every snapshot
from before that commit has ended, and puts the table in the place of the leaves. Whatever dies between the two leaves a
table in the schema penstock_stage, which the next maintenance drops.

Readers and publishes go on meanwhile; who changes what was published before ends the merge first (`target.make_way`).
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock import advice
from penstock.errors import PenstockError, WrongUseError
from penstock.ledger.connection import connect
from penstock.ledger.load import run
from penstock.ledger.roles import read_own_role
from penstock.target.postgres.brief_locks import Wanted, lock_briefly
from penstock.target.postgres.leaf_list import query, read_leaves, read_unfinished
from penstock.target.postgres.levels import Leaf, join
from penstock.target.postgres.table import (
    STAGE_SCHEMA,
    attach_leaf,
    create_leaf,
    find_default,
    find_free_name,
    move_table,
    read_columns,
    target_identifier,
)
from penstock.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection

# `target.make_way` knows the sessions of a merge by it.
APPLICATION = "penstock maintain"
HOLD_SECONDS, SWAP_SECONDS = 30, 300
SOMEBODY_WAITS = "somebody waits for its leaves, to change them by hand"
# SQLSTATE classes of errors that a leaf's rows cause: refused values, broken constraints, limits, damaged storage.
OF_ROWS = ("22", "23", "54", "XX")


class LeafError(Exception):
    """The rows of a leaf cannot be copied or indexed, whatever it is merged with."""

    def __init__(self, leaf: Leaf, reason: str) -> None:
        super().__init__(f"{leaf.schema}.{leaf.name}: {reason}")
        self.leaf = leaf
        self.reason = reason


class InUseError(PenstockError):
    """The target was in use for too long; other merges into it would wait for the same sessions."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Neighbouring leaves of a pipeline's target that are to become one."""

    pipeline: Pipeline
    pipeline_id: int
    leaves: tuple[Leaf, ...]

    @property
    def whole(self) -> Leaf:
        """The leaf that comes of them."""
        return join(self.leaves)

    @property
    def staged(self) -> sql.Identifier:
        """Name the table of that leaf until it is one."""
        return sql.Identifier(STAGE_SCHEMA, f"merge_{self.whole.from_load}_{self.whole.until_load - 1}")

    def find_name(self, connection: Connection) -> str:
        """Name that leaf, in the schema of the target."""
        target, whole = self.pipeline.target, self.whole
        wanted = f"{target.table_name}_loads_{whole.from_load}_{whole.until_load - 1}"
        return find_free_name(connection, target.schema_name, wanted)

    @property
    def tables(self) -> list[sql.Identifier]:
        """The tables of the leaves."""
        return [_identify(leaf) for leaf in self.leaves]

    def want(self, connection: Connection) -> Wanted:
        """The target, and the leaves that are to go; attaching another locks the default partition too."""
        target = self.pipeline.target
        return Wanted(target_identifier(target), (*self.tables, *find_default(connection, target)))

    def __str__(self) -> str:
        whole = self.whole
        return f"the merge of loads {whole.from_load} to {whole.until_load - 1} of {self.pipeline.target}"


def merge_leaves(uri: str, merge: Merge) -> int:
    """Merge; how many rows were copied comes back. A leaf that cannot be merged is named by a LeafError."""
    with closing(_connect(uri)) as keeper, closing(_connect(uri)) as writer:
        try:
            return merge_in(keeper, writer, merge)
        except psycopg.Error as error:
            if keeper.broken or writer.broken:
                raise PenstockError(
                    f"{merge} gave way to somebody who changes its leaves, or the connection broke: "
                    f"{str(error).splitlines()[0]}",
                    pipeline=merge.pipeline.name,
                    next_step=advice.NEXT_MAINTENANCE_MERGES,
                ) from error
            if _is_of_rows(error):
                _name_leaf(writer, merge)
            raise


def merge_in(keeper: Connection, writer: Connection, merge: Merge) -> int:
    """Merge: `writer` holds the leaves, copies them and commits; `keeper` puts the copy in their place and commits."""
    refuse_blind(keeper, merge.pipeline)
    keeper.commit()
    try:
        _begin(writer)
        _hold_leaves(writer, keeper, merge)
        rows = fill(writer, merge)
        indexes = _read_indexes(writer, merge)
        build_indexes(writer, merge, indexes)
        _take_over(keeper, merge)
        writer.commit()
        _await_moment(keeper, merge, _read_clock(writer))
        if _read_indexes(keeper, merge) != indexes:
            raise _stopped(merge, "an index of the target was added or dropped meanwhile")
        _swap(keeper, merge)
        keeper.commit()
    finally:
        with suppress(psycopg.Error):  # the next maintenance drops what is left
            keeper.rollback()
        with suppress(psycopg.Error):
            writer.rollback()
            # After a merge there is no such table any more: it has become a leaf.
            writer.execute(sql.SQL("drop table if exists {}").format(merge.staged))
            writer.commit()
    return rows


def _begin(connection: Connection) -> None:
    """Begin the transaction that copies: with memory for the indexes, and the rows in their order."""
    connection.execute("set local maintenance_work_mem = '512MB'; set local synchronize_seqscans = off")


def fill(connection: Connection, merge: Merge) -> int:
    """Copy the leaves into a table of their own; how many rows it has comes back.

    The rows are copied inside the server as they are stored. In a COPY they would go through the text of jsonb, also in
    the binary format: a value of 81 KB can have more than a gigabyte of text, which PostgreSQL cannot make.
    """
    whole, target = merge.whole, merge.pipeline.target
    connection.execute(sql.SQL("drop table if exists {}").format(merge.staged))
    create_leaf(connection, target, merge.staged, whole.from_load, whole.until_load)
    columns = sql.SQL(", ").join(map(sql.Identifier, read_columns(connection, target)))
    copying = sql.SQL("insert into {} ({columns}) select {columns} from only {}")
    rows = 0
    for leaf, table in zip(merge.leaves, merge.tables, strict=True):
        try:
            rows += connection.execute(copying.format(merge.staged, table, columns=columns)).rowcount
        except psycopg.Error as error:
            if not _is_of_rows(error):
                raise
            raise LeafError(leaf, _describe(error)) from error
    return rows


def check_leaf(uri: str, pipeline: Pipeline, pipeline_id: int, leaf: Leaf) -> None:
    """Copy and index one leaf, for nothing: if it cannot be merged, a LeafError says why."""
    with closing(_connect(uri)) as connection:
        _check_leaf(connection, Merge(pipeline, pipeline_id, (leaf,)))


def _name_leaf(connection: Connection, merge: Merge) -> None:
    """Find the leaf whose rows an index refuses: leaves share no load, so that it refuses them alone, too."""
    for leaf in merge.leaves:
        _check_leaf(connection, Merge(merge.pipeline, merge.pipeline_id, (leaf,)))


def _check_leaf(connection: Connection, merge: Merge) -> None:
    try:
        _begin(connection)
        fill(connection, merge)
        build_indexes(connection, merge, _read_indexes(connection, merge))
    except psycopg.Error as error:
        if not _is_of_rows(error):
            raise
        raise LeafError(merge.leaves[0], _describe(error)) from error
    finally:
        if not connection.closed:
            connection.rollback()


def _is_of_rows(error: psycopg.Error) -> bool:
    return (error.sqlstate or "").startswith(OF_ROWS)


def _describe(error: psycopg.Error) -> str:
    """The server's sentence with its SQLSTATE; of a refused value only its class, for it may quote the value."""
    state = error.sqlstate or ""
    said = "PostgreSQL refuses a value" if state.startswith("22") else str(error.diag.message_primary)
    return f"{said} (SQLSTATE {state}, {type(error).__name__})"


def refuse_blind(connection: Connection, pipeline: Pipeline) -> None:
    """Refuse to merge for a role that is not shown the snapshots of others: a merge waits for the older ones to end."""
    role = read_own_role(connection)
    if not role.sees_snapshots:
        raise WrongUseError(
            f"the role {role.name} may not see since when other sessions read, so a merge could show a reader rows "
            "that are newer than its snapshot; no leaf is merged.",
            pipeline=pipeline.name,
            next_step=advice.grant_stats_then_maintain(role.grant_of_stats),
        )


def _connect(uri: str) -> Connection:
    connection = connect(uri)
    connection.execute(sql.SQL("set application_name = {}").format(sql.Literal(APPLICATION)))
    connection.commit()
    return connection


def _hold_leaves(writer: Connection, other: Connection, merge: Merge) -> None:
    """Keep everybody from changing the leaves until the transaction of `writer` ends."""
    if not wait_until(lambda: _try_hold(writer, other, merge), seconds=HOLD_SECONDS, every=5):
        raise _stopped(merge, f"its leaves, or the pipeline, were in use for {HOLD_SECONDS} s without a pause")


def _try_hold(writer: Connection, other: Connection, merge: Merge) -> bool:
    """Hold the leaves while nobody is within a publish or a rollback, which may have to change them.

    The lock that tells is the other session's, and given back at once: the copy takes time.
    """
    try:
        with other.transaction(), writer.transaction():
            run(other, "lock_pipeline", name=merge.pipeline.name)
            _refuse_changed(other, merge)
            # Long enough for autovacuum to be sent away, which PostgreSQL does after deadlock_timeout.
            writer.execute("set local lock_timeout = '2s'")
            for table in merge.tables:
                writer.execute(sql.SQL("lock table only {} in share mode").format(table))
            writer.execute("reset lock_timeout")
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _refuse_changed(reader: Connection, merge: Merge) -> None:
    found = {
        (leaf.from_load, leaf.until_load, leaf.name)
        for leaf in read_leaves(reader, merge.pipeline, merge.pipeline_id)
    }  # fmt: skip
    whole = merge.whole
    if not found >= {(leaf.from_load, leaf.until_load, leaf.name) for leaf in merge.leaves} or any(
        whole.from_load <= load < whole.until_load for load in read_unfinished(reader, merge.pipeline)
    ):
        raise _stopped(merge, "its leaves have changed since it was planned")


def _take_over(keeper: Connection, merge: Merge) -> None:
    """Hold the leaves by a second session, before the first lets go of them: nobody comes between."""
    try:
        for table in merge.tables:
            keeper.execute(sql.SQL("lock table only {} in share mode nowait").format(table))
    except psycopg.errors.LockNotAvailable:
        raise _stopped(merge, SOMEBODY_WAITS) from None


def _read_clock(connection: Connection) -> datetime:
    row = query(connection, "read_clock").fetchone()
    connection.rollback()
    assert row is not None, "a clock has a time"  # noqa: S101
    moment: datetime = row["moment"]
    return moment


def _read_indexes(connection: Connection, merge: Merge) -> list[tuple[bool, str]]:
    """The indexes that the target has, those made by hand too: else they would be built while everybody waits."""
    target = target_identifier(merge.pipeline.target).as_string(None)
    return [(row["is_unique"], row["definition"]) for row in query(connection, "read_indexes", target=target)]


def build_indexes(connection: Connection, merge: Merge, indexes: Iterable[tuple[bool, str]]) -> None:
    """The key comes first. Partition and offset alone name no record once a topic was created again; the load does."""
    table = merge.staged
    connection.execute(sql.SQL("alter table {} add primary key (_partition, _offset, _load_id)").format(table))
    for is_unique, definition in indexes:
        # PostgreSQL has written the definition itself.
        connection.execute(
            sql.SQL("create {} index on {} {}").format(
                sql.SQL("unique" if is_unique else ""), table, sql.SQL(definition)
            )
        )
    connection.execute(sql.SQL("analyze {}").format(table))


def _swap(keeper: Connection, merge: Merge) -> None:
    whole, target = merge.whole, merge.pipeline.target
    keeper.execute(sql.SQL("drop table {}").format(sql.SQL(", ").join(merge.tables)))
    leaf = move_table(keeper, merge.staged, target.schema_name, merge.find_name(keeper))
    attach_leaf(keeper, target, leaf, whole.from_load, whole.until_load)


def _await_moment(keeper: Connection, merge: Merge, moment: datetime) -> None:
    """Wait for a moment alone with the target, in short tries; it is held until the transaction ends."""
    if not wait_until(lambda: _try_moment(keeper, merge, moment), seconds=SWAP_SECONDS, every=1):
        raise InUseError(
            f"{merge} is put off: for {SWAP_SECONDS} s somebody read the target, or held a snapshot from before "
            "the copy was done.",
            pipeline=merge.pipeline.name,
            next_step=advice.FIND_LONG_TRANSACTIONS_OF_MERGE,
        )


def _try_moment(keeper: Connection, merge: Merge, moment: datetime) -> bool:
    # The rows of the new leaf are those of the transaction that copied them. A snapshot from before its commit does not
    # see them, and would miss them in the place of the leaves: such snapshots have to end.
    query(keeper, "look_anew")
    if query(keeper, "find_waiting").fetchone():
        raise _stopped(merge, SOMEBODY_WAITS)
    if query(keeper, "find_older_snapshot", moment=moment).fetchone():
        return False
    try:
        with keeper.transaction():
            query(keeper, "lock_pipeline_now", pipeline_id=merge.pipeline_id)
            lock_briefly(keeper, merge.want(keeper))
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _identify(leaf: Leaf) -> sql.Identifier:
    return sql.Identifier(leaf.schema, leaf.name)


def _stopped(merge: Merge, why: str) -> PenstockError:
    return PenstockError(
        f"{merge} is put off: {why}.", pipeline=merge.pipeline.name, next_step=advice.NEXT_MAINTENANCE_MERGES
    )
