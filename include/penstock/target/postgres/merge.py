"""Merging: neighbouring leaves are copied into one leaf, which then replaces them in a moment.

A merge is two transactions. The first locks the leaves against changes, copies them inside the server into a table
beside the target, builds the indexes, and commits: every later snapshot sees the copied rows. The second transaction
locks the leaves before the first releases them, so that no comparison of rows is needed at the end. It waits until
every snapshot from before that commit has ended, and then replaces the leaves by the table. A merge that dies between
the two leaves a table in the schema penstock_stage, which the next maintenance drops.

Readers and publishes continue meanwhile. A session that changes published rows ends the merge first (`end_merges` in
`leaves`).
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
from penstock.ledger.load import find_open_loads
from penstock.ledger.pipeline import lock_pipeline, lock_pipeline_now
from penstock.ledger.roles import read_own_role
from penstock.ledger.statements import Statements
from penstock.target.postgres.leaves import attach_leaf, create_leaf, move_table, read_leaves
from penstock.target.postgres.levels import Leaf, make_merged_leaf
from penstock.target.postgres.locks import LockRequest, lock_once, refresh_session_view
from penstock.target.postgres.table import (
    STAGE_SCHEMA,
    find_default_partition,
    find_free_name,
    join_names,
    quote_target,
    read_columns,
    target_identifier,
)
from penstock.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection

_statements = Statements("target/postgres/merge")

# `end_merges` in leaves.sql finds the sessions of a merge by this name.
APPLICATION = "penstock maintain"
HOLD_SECONDS, SWAP_SECONDS = 30, 300
WAITING_SESSION = "another session waits to change its leaves"
# SQLSTATE classes of errors that a leaf's rows cause: refused values, broken constraints, limits, damaged storage.
ROW_ERRORS = ("22", "23", "54", "XX")


class LeafError(Exception):
    """The rows of a leaf cannot be copied or indexed, so the leaf cannot be merged with any other."""

    def __init__(self, leaf: Leaf, reason: str) -> None:
        super().__init__(f"{leaf.schema}.{leaf.name}: {reason}")
        self.leaf = leaf
        self.reason = reason


class InUseError(PenstockError):
    """The target was in use for too long. Other merges of its leaves would wait for the same sessions."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of the server."""

    moment: datetime


@dataclass(frozen=True, slots=True)
class Index:
    """An index of the target; `definition` is the part of CREATE INDEX that follows the name of the table."""

    is_unique: bool
    definition: str


@dataclass(frozen=True, slots=True)
class Merge:
    """Neighbouring leaves of a pipeline's target that are to become one."""

    pipeline: Pipeline
    pipeline_id: int
    leaves: tuple[Leaf, ...]

    @property
    def whole(self) -> Leaf:
        """The leaf that the merge gives."""
        return make_merged_leaf(self.leaves)

    @property
    def staged(self) -> sql.Identifier:
        """Name the table of the merged leaf until it is attached."""
        return sql.Identifier(STAGE_SCHEMA, f"merge_{self.whole.from_load}_{self.whole.until_load - 1}")

    def find_name(self, connection: Connection) -> str:
        """Find a name for the merged leaf in the schema of the target."""
        target, whole = self.pipeline.target, self.whole
        wanted = f"{target.table_name}_loads_{whole.from_load}_{whole.until_load - 1}"
        return find_free_name(connection, target.schema_name, wanted)

    @property
    def tables(self) -> list[sql.Identifier]:
        """The tables of the leaves."""
        return [_identify(leaf) for leaf in self.leaves]

    def make_lock_request(self, connection: Connection) -> LockRequest:
        """Request the target and the leaves that are replaced. ATTACH also locks the default partition."""
        target = self.pipeline.target
        return LockRequest(target_identifier(target), (*self.tables, *find_default_partition(connection, target)))

    def __str__(self) -> str:
        whole = self.whole
        return f"the merge of loads {whole.from_load} to {whole.until_load - 1} of {self.pipeline.target}"


def merge_leaves(uri: str, merge: Merge) -> int:
    """Merge, and return the number of copied rows. A LeafError names a leaf that cannot be merged."""
    with closing(_connect(uri)) as swapper, closing(_connect(uri)) as writer:
        try:
            return merge_in(swapper, writer, merge)
        except psycopg.Error as error:
            if swapper.broken or writer.broken:
                raise PenstockError(
                    f"{merge} was ended by a session that changes its leaves, or the connection broke: "
                    f"{str(error).splitlines()[0]}",
                    pipeline=merge.pipeline.name,
                    next_step=advice.NEXT_MAINTENANCE_MERGES,
                ) from error
            if _is_row_error(error):
                _find_refused_leaf(writer, merge)
            raise


def merge_in(swapper: Connection, writer: Connection, merge: Merge) -> int:
    """Merge: `writer` locks the leaves, copies them and commits; `swapper` replaces them by the copy and commits."""
    _refuse_hidden_snapshots(swapper, merge.pipeline)
    swapper.commit()
    try:
        _prepare_copying(writer)
        _lock_leaves(writer, swapper, merge)
        rows = _copy_leaves(writer, merge)
        indexes = _read_indexes(writer, merge)
        _build_indexes(writer, merge, indexes)
        _take_over_locks(swapper, merge)
        writer.commit()
        _lock_target_when_idle(swapper, merge, _read_clock(writer))
        if _read_indexes(swapper, merge) != indexes:
            raise _make_postponed_error(merge, "an index of the target was added or dropped meanwhile")
        _swap(swapper, merge)
        swapper.commit()
    finally:
        with suppress(psycopg.Error):  # the next maintenance drops the remaining table
            swapper.rollback()
        with suppress(psycopg.Error):
            writer.rollback()
            # After a merge the table has another name: it has become a leaf.
            writer.execute(sql.SQL("drop table if exists {}").format(merge.staged))
            writer.commit()
    return rows


def _prepare_copying(connection: Connection) -> None:
    """Set memory for building the indexes, and make sequential scans read the rows in their stored order."""
    connection.execute("set local maintenance_work_mem = '512MB'; set local synchronize_seqscans = off")


def _copy_leaves(connection: Connection, merge: Merge) -> int:
    """Copy the leaves into a table of their own, and return its number of rows.

    The rows are copied inside the server as they are stored. A COPY would write jsonb as text, also in its binary
    format: a value of 81 KB can have more than a gigabyte of text, and PostgreSQL cannot make such a text.
    """
    whole, target = merge.whole, merge.pipeline.target
    connection.execute(sql.SQL("drop table if exists {}").format(merge.staged))
    create_leaf(connection, target, merge.staged, whole.from_load, whole.until_load)
    columns = join_names(read_columns(connection, target))
    copying = sql.SQL("insert into {} ({columns}) select {columns} from only {}")
    rows = 0
    for leaf, table in zip(merge.leaves, merge.tables, strict=True):
        try:
            rows += connection.execute(copying.format(merge.staged, table, columns=columns)).rowcount
        except psycopg.Error as error:
            if not _is_row_error(error):
                raise
            raise LeafError(leaf, _describe(error)) from error
    return rows


def check_leaf(uri: str, pipeline: Pipeline, pipeline_id: int, leaf: Leaf) -> None:
    """Copy and index one leaf, then discard the copy. A LeafError says why the leaf cannot be merged."""
    with closing(_connect(uri)) as connection:
        _check_leaf(connection, Merge(pipeline, pipeline_id, (leaf,)))


def _find_refused_leaf(connection: Connection, merge: Merge) -> None:
    """Find the leaf whose rows an index refuses. Leaves share no load, so the index refuses the leaf alone as well."""
    for leaf in merge.leaves:
        _check_leaf(connection, Merge(merge.pipeline, merge.pipeline_id, (leaf,)))


def _check_leaf(connection: Connection, merge: Merge) -> None:
    try:
        _prepare_copying(connection)
        _copy_leaves(connection, merge)
        _build_indexes(connection, merge, _read_indexes(connection, merge))
    except psycopg.Error as error:
        if not _is_row_error(error):
            raise
        raise LeafError(merge.leaves[0], _describe(error)) from error
    finally:
        if not connection.closed:
            connection.rollback()


def _is_row_error(error: psycopg.Error) -> bool:
    return (error.sqlstate or "").startswith(ROW_ERRORS)


def _describe(error: psycopg.Error) -> str:
    """Give the server's message and its SQLSTATE; only the SQLSTATE if the message may quote a value of a row."""
    state = error.sqlstate or ""
    message = "PostgreSQL refuses a value" if state.startswith("22") else str(error.diag.message_primary)
    return f"{message} (SQLSTATE {state}, {type(error).__name__})"


def _refuse_hidden_snapshots(connection: Connection, pipeline: Pipeline) -> None:
    """Refuse to merge for a role that cannot see the snapshots of other sessions: a merge waits for old ones to end."""
    role = read_own_role(connection)
    if not role.sees_snapshots:
        raise WrongUseError(
            f"the role {role.name} may not see how long other sessions have been reading, so a reader with an old "
            "snapshot could miss the rows of a merged leaf; no leaf is merged.",
            pipeline=pipeline.name,
            next_step=advice.grant_stats_then_maintain(role.grant_of_stats),
        )


def _connect(uri: str) -> Connection:
    connection = connect(uri)
    connection.execute(sql.SQL("set application_name = {}").format(sql.Literal(APPLICATION)))
    connection.commit()
    return connection


def _lock_leaves(writer: Connection, other: Connection, merge: Merge) -> None:
    """Lock the leaves against changes until the transaction of `writer` ends."""
    if not wait_until(lambda: _try_lock_leaves(writer, other, merge), seconds=HOLD_SECONDS, every=5):
        raise _make_postponed_error(
            merge, f"its leaves, or the pipeline, were in use for {HOLD_SECONDS} s without a pause"
        )


def _try_lock_leaves(writer: Connection, other: Connection, merge: Merge) -> bool:
    """Lock the leaves at a moment when no publish and no rollback is running, because these may change the leaves.

    The lock of plan and publish shows that moment. The other session takes and releases it at once, because the copy
    takes time.
    """
    try:
        with other.transaction(), writer.transaction():
            lock_pipeline(other, merge.pipeline.name)
            _refuse_changed(other, merge)
            # Longer than deadlock_timeout (1 s), after which PostgreSQL cancels an autovacuum that is in the way.
            writer.execute("set local lock_timeout = '2s'")
            for table in merge.tables:
                writer.execute(sql.SQL("lock table only {} in share mode").format(table))
            writer.execute("reset lock_timeout")
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _refuse_changed(reader: Connection, merge: Merge) -> None:
    whole, target = merge.whole, merge.pipeline.target
    current = {_key(leaf) for leaf in read_leaves(reader, merge.pipeline, merge.pipeline_id)}
    unfinished = find_open_loads(reader, str(target))
    if not current >= {_key(leaf) for leaf in merge.leaves} or any(
        whole.from_load <= load < whole.until_load for load in unfinished
    ):
        raise _make_postponed_error(merge, "its leaves have changed since it was planned")


def _key(leaf: Leaf) -> tuple[int, int, str]:
    return leaf.from_load, leaf.until_load, leaf.name


def _take_over_locks(swapper: Connection, merge: Merge) -> None:
    """Lock the leaves in a second session before the first releases them, so that the leaves cannot change between."""
    try:
        for table in merge.tables:
            swapper.execute(sql.SQL("lock table only {} in share mode nowait").format(table))
    except psycopg.errors.LockNotAvailable:
        raise _make_postponed_error(merge, WAITING_SESSION) from None


def _read_clock(connection: Connection) -> datetime:
    moment = _statements.fetch_only(connection, Clock, "read_clock").moment
    connection.rollback()
    return moment


def _read_indexes(connection: Connection, merge: Merge) -> list[Index]:
    """Read all indexes of the target. ATTACH would build an index that the merged leaf misses while readers wait."""
    return _statements.fetch_all(connection, Index, "read_indexes", target=quote_target(merge.pipeline.target))


def _build_indexes(connection: Connection, merge: Merge, indexes: Iterable[Index]) -> None:
    """Build the primary key, then the indexes.

    The key includes the load, because partition and offset mean another record after the topic was created again.
    """
    table = merge.staged
    connection.execute(sql.SQL("alter table {} add primary key (_partition, _offset, _load_id)").format(table))
    for index in indexes:
        # The definition is text that PostgreSQL itself produced.
        connection.execute(
            sql.SQL("create {} index on {} {}").format(
                sql.SQL("unique" if index.is_unique else ""), table, sql.SQL(index.definition)
            )
        )
    connection.execute(sql.SQL("analyze {}").format(table))


def _swap(swapper: Connection, merge: Merge) -> None:
    whole, target = merge.whole, merge.pipeline.target
    swapper.execute(sql.SQL("drop table {}").format(sql.SQL(", ").join(merge.tables)))
    leaf = move_table(swapper, merge.staged, target.schema_name, merge.find_name(swapper))
    attach_leaf(swapper, target, leaf, whole.from_load, whole.until_load)


def _lock_target_when_idle(swapper: Connection, merge: Merge, moment: datetime) -> None:
    """Lock the target until the transaction ends, at a moment when no session reads it or has an old snapshot."""
    if not wait_until(lambda: _try_lock_idle_target(swapper, merge, moment), seconds=SWAP_SECONDS, every=1):
        raise InUseError(
            f"{merge} is postponed: for {SWAP_SECONDS} s sessions read the target, or held snapshots from before the "
            "copy was committed.",
            pipeline=merge.pipeline.name,
            next_step=advice.FIND_LONG_TRANSACTIONS_OF_MERGE,
        )


def _try_lock_idle_target(swapper: Connection, merge: Merge, moment: datetime) -> bool:
    # A snapshot from before the commit of the copy does not see the rows of the new leaf, and would find neither the
    # old leaves nor these rows. So such snapshots must end first.
    refresh_session_view(swapper)
    if _statements.fetch_values(swapper, int, "find_waiting"):
        raise _make_postponed_error(merge, WAITING_SESSION)
    if _statements.fetch_values(swapper, int, "find_older_snapshot", moment=moment):
        return False
    try:
        with swapper.transaction():
            lock_pipeline_now(swapper, merge.pipeline_id)
            lock_once(swapper, merge.make_lock_request(swapper))
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _identify(leaf: Leaf) -> sql.Identifier:
    return sql.Identifier(leaf.schema, leaf.name)


def _make_postponed_error(merge: Merge, why: str) -> PenstockError:
    return PenstockError(
        f"{merge} is postponed: {why}.", pipeline=merge.pipeline.name, next_step=advice.NEXT_MAINTENANCE_MERGES
    )
