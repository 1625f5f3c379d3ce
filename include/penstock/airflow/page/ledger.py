"""The ledger and the declarations for a request: one connection a request, read only, with a time limit."""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.airflow.connections import read_db
from penstock.airflow.declarations import find_folder
from penstock.declaration.pipeline import Pipeline, read_each
from penstock.errors import DeclarationError
from penstock.ledger.connection import concerning, open_for_reading, open_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from penstock.ledger.connection import Connection

    Declared = Mapping[str, Pipeline | DeclarationError]

# The files of declarations: their own, suites of checks, and statements of results.
READ = (".yaml", ".yml", ".json", ".sql")


@contextmanager
def reading(pipeline: str | None = None) -> Iterator[Connection]:
    """Open a connection that can read only, and close it."""
    with concerning(pipeline), open_for_reading(read_db()) as connection:
        yield connection


@contextmanager
def recording(pipeline: str) -> Iterator[Connection]:
    """Open a connection that may write an event."""
    with concerning(pipeline), open_ledger(read_db()) as connection:
        yield connection


def read_declared() -> Declared:
    """Read the declarations by the names of their files, or their errors; files are read again if any has changed."""
    folder = find_folder()
    return _read_at(folder, _take_state(folder))


def _take_state(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """The files of the folder with their times and sizes: to read 500 declarations takes seconds, this 5 ms."""
    found = ((path, path.stat()) for path in sorted(folder.rglob("*")) if path.suffix in READ)
    return tuple((str(path), state.st_mtime_ns, state.st_size) for path, state in found)


@lru_cache(maxsize=1)
def _read_at(folder: Path, state: tuple[tuple[str, int, int], ...]) -> Declared:  # noqa: ARG001 - the key of the cache
    return {path.stem: _shorten(read, folder) for path, read in read_each(folder).items()}


def _shorten(read: Pipeline | DeclarationError, folder: Path) -> Pipeline | DeclarationError:
    """Name files by their paths in the folder of the declarations: the page shows no path of the server."""
    if isinstance(read, Pipeline):
        return read
    return DeclarationError(read.what.replace(f"{folder}/", ""), next_step=read.next_step)
