"""A lock says that a process works on a load: a session of the database holds it, and it ends with the process.

The lock keeps nobody away: several processes may work on one load, and the attempt decides which of them counts.
`status` reads from it whether anybody is at work at all.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from penstock.errors import PenstockError
from penstock.ledger.connection import connect
from penstock.ledger.statements import read_statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.ledger.connection import Connection

SESSION = {
    "application_name": "penstock at work",
    "idle_session_timeout": "0",  # a server may be set to end sessions that do nothing
    # The server notices within half a minute that a machine has lost its power.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
ASK_SECONDS, AGAIN_SECONDS = 10.0, 1.0


@contextmanager
def at_work(uri: str, load_id: int, attempt: int | None = None) -> Iterator[None]:
    """Hold the lock of a load, or of one attempt at it, while the block runs."""
    keeper = _Keeper(uri, f"penstock work {load_id}" + (f" {attempt}" if attempt is not None else ""))
    keeper.start()
    try:
        yield
    finally:
        keeper.end()


class _Keeper(threading.Thread):
    """Keeps the lock, and takes it again when the server has been away meanwhile."""

    def __init__(self, uri: str, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._uri = uri
        self._ended = threading.Event()
        self._connection: Connection | None = self._take()

    def end(self) -> None:
        self._ended.set()
        self.join(AGAIN_SECONDS)  # a thread that waits for a server out of reach ends with the process

    def run(self) -> None:
        while not self._ended.wait(ASK_SECONDS if self._connection else AGAIN_SECONDS):
            self._connection = self._ask()
        if self._connection:
            self._connection.close()

    def _ask(self) -> Connection | None:
        try:
            if self._connection:
                self._connection.execute("select 1")
                return self._connection
            return self._take()
        except (psycopg.Error, PenstockError):
            return None  # the work itself finds out what became of the server

    def _take(self) -> Connection:
        connection = connect(self._uri)
        connection.autocommit = True
        for name, value in SESSION.items():
            connection.execute("select set_config(%s, %s, false)", [name, value])
        connection.execute(read_statements("ledger/load")["be_at_work"], {"work": self.name})
        return connection
