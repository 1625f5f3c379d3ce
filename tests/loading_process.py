"""`penstock run` as a process of its own, to be killed, stopped and continued at chosen moments."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from penstock.waiting import wait_until
from privileges import superuser

BIN = Path(sys.executable).parent


class LoadingProcess:
    """One `penstock run`, with its Spark driver."""

    started: ClassVar[list[LoadingProcess]] = []

    def __init__(self, environment: dict[str, str], pipeline: str, *options: str, command: str = "run") -> None:
        self.process = subprocess.Popen(
            [BIN / "penstock", command, pipeline, "--json", *options],
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(self)

    def finish(self, seconds: float = 500) -> tuple[int, dict[str, Any], str]:
        """Wait for the end; return the exit code, the document on stdout, and the text on stderr."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, json.loads(out) if out.strip() else {}, err

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and all its descendants, including those in sessions of their own."""
        for pid in [*find_descendants(self.process.pid), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Send SIGKILL to the process and its descendants, and wait for its end."""
        if self.process.returncode is not None:
            return
        self.signal(signal.SIGSTOP)  # so that no process starts a child after it is listed and before it is killed
        self.signal(signal.SIGKILL)
        self.process.communicate()


def find_descendants(pid: int) -> list[int]:
    """The descendants of a process, deepest last."""
    children = [
        int(child)
        for task in Path(f"/proc/{pid}/task").glob("*/children")
        for child in task.read_text().split()
    ]  # fmt: skip
    return children + [below for child in children for below in find_descendants(child)]


def await_true(condition: Callable[[], Any], what: str, seconds: float = 300) -> Any:
    """Wait until a condition holds; fail with its name if it never does."""
    found = wait_until(condition, seconds=seconds, every=0.05)
    assert found, f"waited {seconds} s, and this did not happen: {what}"
    return found


def query(db: str, text: str, *values: object) -> list[Any]:
    """Run a query, and return all rows."""
    with psycopg.connect(db) as connection:
        return connection.execute(text, values).fetchall()


def await_blocked(db: str, seconds: float = 300) -> None:
    """Wait until a session of this database, other than a watcher, waits for a lock that the test holds."""
    await_true(
        lambda: query(
            db,
            "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            " and pid <> pg_backend_pid() and application_name <> 'watcher'",
        ),
        "a step waits at the lock of the test",
        seconds,
    )


@contextmanager
def locked(db: str, statement: str, *values: object) -> Iterator[None]:
    """Hold a lock while the block runs."""
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(statement, values)
        yield
        connection.rollback()


@contextmanager
def stopped_at_first_copy(db: str) -> Iterator[None]:
    """Stop the load at its first COPY, by a lock on the attempt's table: its task has read, and no row is staged."""
    with psycopg.connect(db) as connection:

        def lock_attempt() -> bool:
            table = query(db, "select relname from pg_class where relnamespace = 'penstock_stage'::regnamespace"
                              " and relkind = 'r'")  # fmt: skip
            if table:
                connection.execute(f"lock table penstock_stage.{table[0][0]} in share mode")
            return bool(table)

        await_true(lock_attempt, "the attempt has its table")
        yield
        connection.rollback()
