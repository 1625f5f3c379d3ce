"""The SQL of the package: named, described statements in .sql files, and the one way to run them.

Each .sql file has a Python module of the same name beside it. The module has a plainly named function for each
statement; other rooms call these functions.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import sql
from psycopg.rows import dict_row, kwargs_row, scalar_row

from penstock import advice
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

    Connection = psycopg.Connection[Any]
    Pieces = Mapping[str, sql.Composable]

T = TypeVar("T")

NAMED = re.compile(r"^-- name: (?P<name>\w+)\n(?:--.*\n)*(?P<text>(?:(?!-- name: ).*\n?)*)", re.MULTILINE)


@cache
def read_statements(file: str) -> dict[str, bytes]:
    """Read the statements of a file by name; `file` is its path inside the package, without the ending `.sql`."""
    text = files("penstock").joinpath(f"{file}.sql").read_text(encoding="utf-8")
    return {found["name"]: found["text"].strip().encode() for found in NAMED.finditer(text)}


class Statements:
    """The statements of one file, run by name in the caller's transaction.

    `make` is a frozen dataclass or a function: it gets the columns of a row as keyword arguments. `pieces` fill the
    `{names}` of a statement: tables, and the hash of a row.
    """

    def __init__(self, file: str) -> None:
        self.file = file

    def execute(self, connection: Connection, name: str, pieces: Pieces | None = None, /, **values: object) -> int:
        """Run a statement; the number of rows that it changed or returned."""
        return connection.execute(self.compose(name, pieces), values).rowcount

    def fetch_all(
        self,
        connection: Connection,
        make: Callable[..., T],
        name: str,
        pieces: Pieces | None = None,
        /,
        **values: object,
    ) -> list[T]:
        """Run a statement; all of its rows."""
        cursor = connection.cursor(row_factory=kwargs_row(make))
        return cursor.execute(self.compose(name, pieces), values).fetchall()

    def fetch_one(
        self,
        connection: Connection,
        make: Callable[..., T],
        name: str,
        pieces: Pieces | None = None,
        /,
        **values: object,
    ) -> T | None:
        """Run a statement; its first row, or None."""
        cursor = connection.cursor(row_factory=kwargs_row(make))
        return cursor.execute(self.compose(name, pieces), values).fetchone()

    def fetch_only(
        self,
        connection: Connection,
        make: Callable[..., T],
        name: str,
        pieces: Pieces | None = None,
        /,
        **values: object,
    ) -> T:
        """Run a statement that always returns a row."""
        row = self.fetch_one(connection, make, name, pieces, **values)
        if row is None:
            raise self._no_row(name)
        return row

    def fetch_values(
        self,
        connection: Connection,
        make: Callable[[Any], T],
        name: str,
        pieces: Pieces | None = None,
        /,
        **values: object,
    ) -> list[T]:
        """Run a statement; the first column of all rows, each value made by `make`."""
        cursor = connection.cursor(row_factory=scalar_row)
        return [make(value) for value in cursor.execute(self.compose(name, pieces), values)]

    def fetch_value(
        self,
        connection: Connection,
        make: Callable[[Any], T],
        name: str,
        pieces: Pieces | None = None,
        /,
        **values: object,
    ) -> T:
        """Run a statement that always returns a row; the first column of it, made by `make`."""
        found = self.fetch_values(connection, make, name, pieces, **values)
        if not found:
            raise self._no_row(name)
        return found[0]

    def compose(self, name: str, pieces: Pieces | None = None) -> bytes | sql.Composed:
        """The text of a statement, its pieces filled in."""
        text = read_statements(self.file)[name]
        return text if pieces is None else sql.SQL(text.decode()).format(**pieces)

    def _no_row(self, name: str) -> PenstockError:
        return PenstockError(
            f"the statement {name} of {self.file}.sql returned no row.", next_step=advice.REPORT_DEFECT
        )


class Room:
    """The statements of a file with rows as dictionaries; new code uses `Statements`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, connection: Connection, statement: str, /, **values: object) -> psycopg.Cursor[dict[str, Any]]:
        """Run a named statement."""
        return connection.cursor(row_factory=dict_row).execute(read_statements(self.name)[statement], values)

    def run_for_row(self, connection: Connection, statement: str, /, **values: object) -> dict[str, Any]:
        """Run a named statement that always returns a row."""
        row = self.run(connection, statement, **values).fetchone()
        if row is None:
            raise PenstockError(f"the statement {statement} returned no row.", next_step=advice.REPORT_DEFECT)
        return row
