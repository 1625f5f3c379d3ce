"""A reader of a result: it asks for one row every 20 ms, and keeps how long the slowest answer took."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

PAUSE = 0.02


@dataclass(slots=True)
class Waits:
    """The seconds that a reader waited for each answer."""

    seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{max(self.seconds) * 1000:.0f} ms of {len(self.seconds):,} polls" if self.seconds else "no poll"


@contextmanager
def running_beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run work in a thread until the block ends; then its event is set."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def polling(waits: Waits, table: str, key: str, db: str) -> AbstractContextManager[None]:
    """Read rows of a table by their keys until the block ends; before the table exists there is nothing to read."""
    return running_beside(partial(_poll, waits, table, key, db))


def _poll(waits: Waits, table: str, key: str, db: str, ended: threading.Event) -> None:
    statement = sql.SQL("select * from {} where {} = %s").format(sql.Identifier(*table.split(".")), sql.Identifier(key))
    with psycopg.connect(db, autocommit=True) as connection:
        for number in range(2**62):
            if ended.wait(PAUSE):
                return
            began = time.monotonic()
            try:
                connection.execute(statement, [number * 7919 % 1_000_000]).fetchall()
            except psycopg.errors.UndefinedTable:
                continue
            waits.seconds.append(time.monotonic() - began)
