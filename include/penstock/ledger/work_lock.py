"""A session lock of PostgreSQL shows that a process works on a load; the lock ends with the process.

The lock is shared, so it blocks no other process: several processes may work on one load, and the attempt decides which
of them counts. `penstock status` reads from the lock whether any process works on the load.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from penstock.errors import PenstockError
from penstock.ledger.connection import connect
from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.ledger.connection import Connection

SESSION = {
    "application_name": "penstock at work",
    "idle_session_timeout": "0",  # a server may be configured to end idle sessions
    # The server notices within 25 s that a machine has lost its power.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
CHECK_SECONDS, RETRY_SECONDS = 10.0, 1.0

_statements = Statements("ledger/work_lock")


@contextmanager
def working_on(uri: str, load_id: int, attempt: int | None = None) -> Iterator[None]:
    """Hold the lock of a load, or of one attempt at it, while the block runs."""
    keeper = _Keeper(uri, f"penstock work {load_id}" + (f" {attempt}" if attempt is not None else ""))
    keeper.start()
    try:
        yield
    finally:
        keeper.end()


class _Keeper(threading.Thread):
    """Keeps the lock, and takes it again after the server was out of reach."""

    def __init__(self, uri: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._uri = uri
        self._ended = threading.Event()
        self._connection: Connection | None = self._take()

    def end(self) -> None:
        self._ended.set()
        self.join(RETRY_SECONDS)  # a thread that still waits for the server ends with the process

    def run(self) -> None:
        while not self._ended.wait(CHECK_SECONDS if self._connection else RETRY_SECONDS):
            self._connection = self._check()
        if self._connection:
            self._connection.close()

    def _check(self) -> Connection | None:
        try:
            if self._connection:
                self._connection.execute("select 1")
                return self._connection
            return self._take()
        except (psycopg.Error, PenstockError):
            return None  # the work itself reports that the server is out of reach

    def _take(self) -> Connection:
        connection = connect(self._uri)
        connection.autocommit = True
        for name, value in SESSION.items():
            connection.execute("select set_config(%s, %s, false)", [name, value])
        _statements.execute(connection, "take_work_lock", work=self.name)
        return connection
