"""Strong locks on tables that people read, requested in short tries.

A session that waits for a strong lock also stops every later reader of the table. So each try waits for a fifth of a
second, and the tries end after half a minute with an error that names the sessions that held the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg import sql

from penstock import advice
from penstock.errors import PenstockError
from penstock.ledger.statements import Statements
from penstock.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    Connection = psycopg.Connection[Any]

_statements = Statements("target/postgres/locks")

Mode = Literal["access exclusive", "share"]

# A reader waits for one try and for the change after it: 0.3 s at most for both.
TRY_MILLISECONDS, TRY_SECONDS, PAUSE_SECONDS = 200, 30, 0.5
# PostgreSQL cancels an autovacuum that a session has waited for during deadlock_timeout, which is 1 s by default.
AUTOVACUUM_SECONDS = 2
MAX_NAMED_HOLDERS = 5
WRITER_LOCKS = (
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
)
ALL_LOCKS = ("AccessShareLock", "RowShareLock", "ShareLock", *WRITER_LOCKS)
CONFLICTS: dict[Mode, tuple[str, ...]] = {"access exclusive": ALL_LOCKS, "share": WRITER_LOCKS}


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A session, or a prepared transaction, that holds a lock. A fact that the role may not see is None."""

    pid: int | None
    prepared: str | None
    role: str | None
    application: str | None
    since: datetime | None
    statement: str | None

    def __str__(self) -> str:
        if self.pid is None:
            return f"the prepared transaction {self.prepared} (role {self.role})"
        since = f", in a transaction since {self.since.isoformat(timespec='seconds')}" if self.since else ""
        words = " ".join((self.statement or "").split()[:5])[:60]
        statement = f", last statement: {words} …" if words else ""
        return f"session {self.pid} (role {self.role}, application {self.application or 'unnamed'}{since}{statement})"


@dataclass(frozen=True, slots=True)
class LockRequest:
    """A table and some of its leaves to be locked together, for a pipeline or for one of its loads."""

    table: sql.Identifier
    leaves: tuple[sql.Identifier, ...] = ()
    mode: Mode = "access exclusive"
    pipeline: str | None = None
    load: int | None = None


def lock_in_tries(connection: Connection, request: LockRequest) -> None:
    """Lock until the transaction ends; after half a minute of tries an error names the sessions that hold the lock."""
    holders: list[LockHolder] = []
    if not wait_until(lambda: _try_lock(connection, request, holders), seconds=TRY_SECONDS, every=PAUSE_SECONDS):
        raise _make_in_use_error(request, holders)


def lock_once(connection: Connection, request: LockRequest) -> None:
    """Try to lock once, for a fifth of a second; raise LockNotAvailable if the lock was not granted.

    Only the table is waited for. The leaves are locked without waiting, because from the lock of the table on every
    reader of the table waits.
    """
    mode = sql.SQL(request.mode)
    connection.execute(sql.SQL("set local lock_timeout = {}").format(sql.Literal(f"{TRY_MILLISECONDS}ms")))
    connection.execute(sql.SQL("lock table only {} in {} mode").format(request.table, mode))
    if request.leaves:
        connection.execute(sql.SQL("lock table {} in {} mode nowait").format(_list_only(request.leaves), mode))
    connection.execute("reset lock_timeout")


def _try_lock(connection: Connection, request: LockRequest, holders: list[LockHolder]) -> bool:
    try:
        with connection.transaction():
            _cancel_autovacuum(connection, request)
            lock_once(connection, request)
    except psycopg.errors.LockNotAvailable:
        holders[:] = find_holders(connection, request) or holders
        return False
    return True


def _cancel_autovacuum(connection: Connection, request: LockRequest) -> None:
    """Take a lock that makes PostgreSQL cancel an autovacuum, and that no reader and no writer waits for."""
    tables = _list_only((request.table, *request.leaves))
    connection.execute(sql.SQL("set local lock_timeout = {}").format(sql.Literal(f"{AUTOVACUUM_SECONDS}s")))
    connection.execute(sql.SQL("lock table {} in share update exclusive mode").format(tables))


def find_holders(connection: Connection, request: LockRequest) -> list[LockHolder]:
    """Find the sessions whose locks conflict with the requested lock."""
    names = [table.as_string(None) for table in (request.table, *request.leaves)]
    refresh_session_view(connection)
    where = {"tables": names, "modes": list(CONFLICTS[request.mode])}
    return _statements.fetch_all(connection, LockHolder, "find_holders", **where)


def refresh_session_view(connection: Connection) -> None:
    """Make the next query on pg_stat_activity show the sessions as they are now.

    Without this, PostgreSQL repeats within a transaction the list that it showed first.
    """
    _statements.execute(connection, "refresh_session_view")


def _make_in_use_error(request: LockRequest, holders: Sequence[LockHolder]) -> PenstockError:
    name = ".".join(request.table._obj)
    named = holders[:MAX_NAMED_HOLDERS]
    held = f" Held by {'; '.join(map(str, named))}." if holders else ""
    pids = [holder.pid for holder in named if holder.pid]
    return PenstockError(
        f"{name} was in use for {TRY_SECONDS} s without a pause; nothing is changed.{held}",
        pipeline=request.pipeline,
        load=request.load,
        next_step=advice.end_sessions(pids) if pids else advice.FIND_LONG_TRANSACTIONS,
    )


def _list_only(tables: Iterable[sql.Identifier]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("only {}").format(table) for table in tables)
