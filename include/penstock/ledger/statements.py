"""The SQL of the package: named, described statements in .sql files."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from penstock import advice
from penstock.errors import PenstockError

if TYPE_CHECKING:
    import psycopg

NAMED = re.compile(r"^-- name: (?P<name>\w+)\n(?:--.*\n)*(?P<text>(?:(?!-- name: ).*\n?)*)", re.MULTILINE)


@cache
def read_statements(room: str) -> dict[str, bytes]:
    """Read the statements of a file by name; the file is named from the package on, without its ending."""
    text = files("penstock").joinpath(f"{room}.sql").read_text(encoding="utf-8")
    return {found["name"]: found["text"].strip().encode() for found in NAMED.finditer(text)}


class Room:
    """The statements of a file, run by name; rows come by the names of their columns."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(
        self, connection: psycopg.Connection[Any], statement: str, /, **values: object
    ) -> psycopg.Cursor[dict[str, Any]]:
        """Run a named statement."""
        return connection.cursor(row_factory=dict_row).execute(read_statements(self.name)[statement], values)

    def run_for_row(self, connection: psycopg.Connection[Any], statement: str, /, **values: object) -> dict[str, Any]:
        """Run a named statement that always gives a row; none is a defect, and stops."""
        row = self.run(connection, statement, **values).fetchone()
        if row is None:
            raise PenstockError(f"the ledger's statement {statement} gave no row.", next_step=advice.REPORT_DEFECT)
        return row
