"""The progress of a load that runs, for a person at a terminal."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from penstock.cli.output import people
from penstock.ledger.connection import open_ledger
from penstock.ledger.statements import read_statements

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def following(uri: str, pipeline: str) -> Iterator[None]:
    """Show how the newest load of a pipeline comes along, while the block runs. Says nothing unless to a terminal."""
    if not people.is_terminal:
        yield
        return
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn(),
        console=people, transient=True,
    )  # fmt: skip
    done = threading.Event()
    thread = threading.Thread(target=_follow, args=(uri, pipeline, bar, done), daemon=True)
    with bar:
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(timeout=2)


def _follow(uri: str, pipeline: str, bar: Progress, done: threading.Event) -> None:
    tasks: dict[int, object] = {}
    with open_ledger(uri) as connection:
        connection.autocommit = True
        while not done.wait(0.5):
            try:
                rows = connection.execute(
                    read_statements("ledger/status")["read_progress"], {"pipeline": pipeline}
                ).fetchall()
            except psycopg.OperationalError:
                return  # the load itself says what is wrong with the database
            for partition, planned, offsets, rate in rows:
                if partition not in tasks:
                    tasks[partition] = bar.add_task(f"partition {partition}", total=planned, rate="")
                bar.update(tasks[partition], completed=offsets, rate=f"{rate:,} rows/s")  # type: ignore[arg-type]
