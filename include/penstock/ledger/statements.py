"""The SQL of the package: named, described statements in .sql files, and the one way to run them.

Each .sql file has a Python module of the same name beside it. The module has a plainly named function for each
statement; other rooms call these functions.
"""

from __future__ import annotations

import re
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import sql
from psycopg.rows import kwargs_row, scalar_row

from penstock import advice
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

    Connection = psycopg.Connection[Any]
    Pieces = Mapping[str, sql.Composable]

T = TypeVar("T")

NAMED = re.compile(r"^-- name: (?P<name>\w+)\n(?:--.*\n)*(?P<text>(?:(?!-- name: ).*\n?)*)", re.MULTILINE)


class Statements:
    """The statements of one file, run by name in the caller's transaction.

    `make` is a frozen dataclass or a function: it gets the columns of a row as keyword arguments. `pieces` fill the
    `{names}` of a statement: tables, and the hash of a row.
    """

    def __init__(self, file: str) -> None:
        """Name the file by its path inside the package, without the ending `.sql`."""
        self.file = file

    @cached_property
    def texts(self) -> dict[str, str]:
        """The statements of the file by name."""
        text = files("penstock").joinpath(f"{self.file}.sql").read_text(encoding="utf-8")
        return {found["name"]: found["text"].strip() for found in NAMED.finditer(text)}

    def execute(self, connection: Connection, name: str, pieces: Pieces | None = None, /, **values: object) -> int:
        """Run a statement; the number of rows that it changed or returned."""
        return connection.execute(self._compose(name, pieces), values).rowcount

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
        return cursor.execute(self._compose(name, pieces), values).fetchall()

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
        return cursor.execute(self._compose(name, pieces), values).fetchone()

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
        return [make(value) for value in cursor.execute(self._compose(name, pieces), values)]

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

    def compose_text(self, name: str, pieces: Pieces | None = None) -> str:
        """The text of a statement with its pieces, for a connection that is not one of psycopg."""
        return self.texts[name] if pieces is None else sql.SQL(self.texts[name]).format(**pieces).as_string(None)

    def _compose(self, name: str, pieces: Pieces | None) -> bytes | sql.Composed:
        text = self.texts[name]
        return text.encode() if pieces is None else sql.SQL(text).format(**pieces)

    def _no_row(self, name: str) -> PenstockError:
        return PenstockError(
            f"the statement {name} of {self.file}.sql returned no row.", next_step=advice.REPORT_DEFECT
        )
