"""Merging: neighbouring leaves are copied into one, which then takes their place in a moment.

It is one transaction: whatever dies, and whenever, PostgreSQL takes all of it back. While the leaves are copied they
are held as they are, so that nothing has to be compared in the end. Readers and publishes go on meanwhile; who changes
what was published before ends the merge first (`target.make_way`).

The copy is by COPY … FREEZE: rows that were INSERTed would be missing for a transaction whose snapshot is older.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock import ledger
from penstock.brief_locks import Wanted, lock_briefly
from penstock.errors import PenstockError
from penstock.maintenance.levels import Leaf, join
from penstock.maintenance.reading import query, read_leaves, read_unfinished
from penstock.target import attach_leaf, create_leaf, find_default, find_free_name, read_columns, target_identifier
from penstock.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from psycopg.abc import Buffer

    from penstock.ledger import Connection
    from penstock.pipeline import Pipeline

# `target.make_way` knows the sessions of a merge by it.
APPLICATION = "penstock maintain"
PIECE_BYTES = 256 * 1024
HOLD_SECONDS, SWAP_SECONDS = 30, 300
NOTHING_TO_DO = "nothing to do: the next maintenance starts it again."


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

    def name_table(self, connection: Connection) -> sql.Identifier:
        """Name the table of that leaf."""
        target, whole = self.pipeline.target, self.whole
        wanted = f"{target.table_name}_loads_{whole.from_load}_{whole.until_load - 1}"
        return sql.Identifier(target.schema_name, find_free_name(connection, target.schema_name, wanted))

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
    """Merge; how many rows were copied comes back."""
    with closing(_connect(uri)) as keeper, closing(_connect(uri)) as reader:
        try:
            rows = merge_in(keeper, reader, merge)
            keeper.commit()
        except psycopg.OperationalError as error:
            if not (keeper.broken or reader.broken):
                raise
            raise PenstockError(
                f"{merge} gave way to somebody who changes its leaves, or the connection broke: "
                f"{str(error).splitlines()[0]}",
                pipeline=merge.pipeline.name,
                next_step=NOTHING_TO_DO,
            ) from error
    return rows


def merge_in(keeper: Connection, reader: Connection, merge: Merge) -> int:
    """Merge in the transaction of `keeper`; `reader` reads what is copied."""
    keeper.execute("set local maintenance_work_mem = '512MB'")
    moment = _hold_leaves(keeper, reader, merge)
    whole, target = merge.whole, merge.pipeline.target
    table = merge.name_table(keeper)
    create_leaf(keeper, target, table, whole.from_load, whole.until_load)
    columns = sql.SQL(", ").join(map(sql.Identifier, read_columns(keeper, target)))
    rows = sum(_copy(reader, keeper, source, table, columns) for source in merge.tables)
    indexes = _read_indexes(keeper, merge)
    _build_indexes(keeper, table, indexes)
    _await_moment(keeper, merge, moment)
    if _read_indexes(keeper, merge) != indexes:
        raise _stopped(merge, "an index of the target was added or dropped meanwhile")
    keeper.execute(sql.SQL("drop table {}").format(sql.SQL(", ").join(merge.tables)))
    attach_leaf(keeper, target, table, whole.from_load, whole.until_load)
    return rows


def _connect(uri: str) -> Connection:
    connection = ledger.connect(uri)
    connection.execute(sql.SQL("set application_name = {}").format(sql.Literal(APPLICATION)))
    connection.commit()
    return connection


def _hold_leaves(keeper: Connection, reader: Connection, merge: Merge) -> datetime:
    """Keep everybody from changing the leaves until the transaction ends; since when comes back."""
    held = wait_until(lambda: _try_hold(keeper, reader, merge), seconds=HOLD_SECONDS, every=5)
    if held is None:
        raise _stopped(merge, f"its leaves, or the pipeline, were in use for {HOLD_SECONDS} s without a pause")
    return held


def _try_hold(keeper: Connection, reader: Connection, merge: Merge) -> datetime | None:
    """Hold the leaves while nobody is within a publish or a rollback, which may have to change them.

    The lock that tells is the other session's, and given back at once: the copy takes time.
    """
    try:
        with reader.transaction(), keeper.transaction():
            ledger.run(reader, "lock_pipeline", name=merge.pipeline.name)
            _refuse_changed(reader, merge)
            # Long enough for autovacuum to be sent away, which PostgreSQL does after deadlock_timeout.
            keeper.execute("set local lock_timeout = '2s'")
            for table in merge.tables:
                keeper.execute(sql.SQL("lock table only {} in share mode").format(table))
            keeper.execute("reset lock_timeout")
            row = query(reader, "read_clock").fetchone()
    except psycopg.errors.LockNotAvailable:
        return None
    return row["moment"] if row else None


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


def _copy(
    reader: Connection, keeper: Connection, source: sql.Identifier, table: sql.Identifier, columns: sql.Composed
) -> int:
    out = sql.SQL("copy {} ({}) to stdout (format binary)").format(source, columns)
    into = sql.SQL("copy {} ({}) from stdin (format binary, freeze)").format(table, columns)
    with reader.cursor() as read, keeper.cursor() as written:
        with read.copy(out) as rows, written.copy(into) as copied:
            for piece in _gather(rows):
                copied.write(piece)
        reader.commit()
        return written.rowcount


def _gather(parts: Iterable[Buffer]) -> Iterator[bytes]:
    """Bigger pieces of the stream, which comes row by row."""
    waiting: list[Buffer] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _read_indexes(keeper: Connection, merge: Merge) -> list[tuple[bool, str]]:
    """The indexes that the target has, those made by hand too: else they would be built while everybody waits."""
    target = target_identifier(merge.pipeline.target).as_string(None)
    return [(row["is_unique"], row["definition"]) for row in query(keeper, "read_indexes", target=target)]


def _build_indexes(keeper: Connection, table: sql.Identifier, indexes: list[tuple[bool, str]]) -> None:
    """The key comes first. Partition and offset alone name no record once a topic was created again; the load does."""
    keeper.execute(sql.SQL("alter table {} add primary key (_partition, _offset, _load_id)").format(table))
    for is_unique, definition in indexes:
        # PostgreSQL has written the definition itself.
        keeper.execute(
            sql.SQL("create {} index on {} {}").format(
                sql.SQL("unique" if is_unique else ""), table, sql.SQL(definition)
            )
        )
    keeper.execute(sql.SQL("analyze {}").format(table))


def _await_moment(keeper: Connection, merge: Merge, moment: datetime) -> None:
    """Wait for a moment alone with the target, in short tries; it is held until the transaction ends."""
    if not wait_until(lambda: _try_moment(keeper, merge, moment), seconds=SWAP_SECONDS, every=1):
        raise _stopped(
            merge,
            f"for {SWAP_SECONDS} s somebody read the target, or held a snapshot from before the merge began",
            "see pg_stat_activity for long transactions; the next maintenance starts it again.",
        )


def _try_moment(keeper: Connection, merge: Merge, moment: datetime) -> bool:
    # All rows of the new leaf are visible to everybody. Older snapshots have to end: one from before the publish of a
    # load must not see its rows, and one from before a replay has to see those that were deleted.
    query(keeper, "look_anew")
    if query(keeper, "find_waiting").fetchone():
        raise _stopped(merge, "somebody waits for its leaves, to change them by hand")
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


def _stopped(merge: Merge, why: str, next_step: str = NOTHING_TO_DO) -> PenstockError:
    return PenstockError(f"{merge} is put off: {why}.", pipeline=merge.pipeline.name, next_step=next_step)
