"""Strong locks on tables that people read: they are asked for in short tries, so that no reader waits for another.

A lock that waits stops everybody who comes after it. Each try waits for a fifth of a second, and the tries end after
half a minute, with the names of the sessions that held the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from penstock import advice
from penstock.errors import PenstockError
from penstock.ledger.statements import read_statements
from penstock.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    Connection = psycopg.Connection[Any]

Mode = Literal["access exclusive", "share"]

# A reader waits for a try and for the change that follows it: 0.3 s at most for both.
TRY_MILLISECONDS, TRY_SECONDS, PAUSE_SECONDS = 200, 30, 0.5
# PostgreSQL stops an autovacuum that somebody has waited for during deadlock_timeout, which is 1 s by default.
AUTOVACUUM_SECONDS = 2
WRITERS = (
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
)
ALL = ("AccessShareLock", "RowShareLock", "ShareLock", *WRITERS)
CONFLICTS: dict[Mode, tuple[str, ...]] = {"access exclusive": ALL, "share": WRITERS}


@dataclass(frozen=True, slots=True)
class Holder:
    """A session, or a prepared transaction, that holds a lock. None stands for facts that the role may not see."""

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
class Wanted:
    """A table and some of its leaves that shall be locked together, for a pipeline or one of its loads."""

    table: sql.Identifier
    leaves: tuple[sql.Identifier, ...] = ()
    mode: Mode = "access exclusive"
    pipeline: str | None = None
    load: int | None = None


def lock_briefly(connection: Connection, wanted: Wanted) -> None:
    """Lock within a moment, or raise LockNotAvailable.

    The leaves are not waited for: everybody who comes to the table waits meanwhile.
    """
    mode = sql.SQL(wanted.mode)
    connection.execute(sql.SQL("set local lock_timeout = {}").format(sql.Literal(f"{TRY_MILLISECONDS}ms")))
    connection.execute(sql.SQL("lock table only {} in {} mode").format(wanted.table, mode))
    if wanted.leaves:
        connection.execute(sql.SQL("lock table {} in {} mode nowait").format(_each_only(wanted.leaves), mode))
    connection.execute("reset lock_timeout")


def lock_in_tries(connection: Connection, wanted: Wanted) -> None:
    """Lock until the transaction ends; after half a minute of tries an error names the sessions in the way."""
    holders: list[Holder] = []
    if not wait_until(lambda: _try(connection, wanted, holders), seconds=TRY_SECONDS, every=PAUSE_SECONDS):
        raise refuse_held(wanted, holders)


def refuse_held(wanted: Wanted, holders: Sequence[Holder]) -> PenstockError:
    """Make the error that names the sessions which held the tables."""
    name = ".".join(wanted.table._obj)
    held = f" Held by {'; '.join(map(str, holders[:5]))}." if holders else ""
    pids = [holder.pid for holder in holders[:5] if holder.pid]
    return PenstockError(
        f"{name} was in use for {TRY_SECONDS} s without a pause; nothing is changed.{held}",
        pipeline=wanted.pipeline,
        load=wanted.load,
        next_step=advice.end_sessions(pids) if pids else advice.FIND_LONG_TRANSACTIONS,
    )


def _try(connection: Connection, wanted: Wanted, holders: list[Holder]) -> bool:
    try:
        with connection.transaction():
            _send_autovacuum_away(connection, wanted)
            lock_briefly(connection, wanted)
    except psycopg.errors.LockNotAvailable:
        holders[:] = find_holders(connection, wanted) or holders
        return False
    return True


def _send_autovacuum_away(connection: Connection, wanted: Wanted) -> None:
    """Take a lock that no reader and no writer waits for, and that an autovacuum gives way to."""
    tables = _each_only((wanted.table, *wanted.leaves))
    connection.execute(sql.SQL("set local lock_timeout = {}").format(sql.Literal(f"{AUTOVACUUM_SECONDS}s")))
    connection.execute(sql.SQL("lock table {} in share update exclusive mode").format(tables))


def find_holders(connection: Connection, wanted: Wanted) -> list[Holder]:
    """Find who holds a lock that conflicts with the wanted one."""
    names = [table.as_string(None) for table in (wanted.table, *wanted.leaves)]
    statements = read_statements("target/postgres/table")
    # Within a transaction PostgreSQL shows the sessions as it has shown them before.
    connection.execute(statements["look_again"])
    with connection.cursor(row_factory=class_row(Holder)) as cursor:
        modes = list(CONFLICTS[wanted.mode])
        return cursor.execute(statements["find_holders"], {"tables": names, "modes": modes}).fetchall()


def _each_only(tables: Iterable[sql.Identifier]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("only {}").format(table) for table in tables)
