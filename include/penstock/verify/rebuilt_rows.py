"""Rows that are rebuilt from their records: decoded, copied into a temporary table, and hashed there by PostgreSQL.

Only PostgreSQL can compute the hash of a row. It hashes the values that the COPY has stored, so the comparison also
finds values that the load decoded or stored wrongly.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from adbc_driver_manager import Error as AdbcError
from psycopg import sql

from penstock import advice
from penstock.errors import PenstockError
from penstock.ledger.verification import compose_rebuild
from penstock.records.decoder import Decoder
from penstock.target.assignment import make_assignment
from penstock.target.base import RowSum
from penstock.target.postgres.chunks import quote_server
from penstock.target.postgres.copy import open_connection
from penstock.target.postgres.rows import hash_row
from penstock.target.postgres.table import describe_columns, target_identifier, type_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from penstock.model.load import Load
    from penstock.model.ranges import Range
    from penstock.model.records import Batch
    from penstock.settings import Settings
    from penstock.target.assignment import Assignment


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that a task needs to rebuild the rows of loads with one declaration."""

    assignment: Assignment
    create: str
    hash: str
    compare: str


@dataclass(frozen=True, slots=True)
class ComparedOffsets:
    """The offsets of a chunk whose rows are compared: those that its load covers, but not those that were refused."""

    covered: tuple[tuple[int, int], ...]
    refused: tuple[int, ...]

    def filter(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the rows of these offsets."""
        offsets = rows["_offset"].to_numpy()
        wanted = np.zeros(len(offsets), bool)
        for start, until in self.covered:
            wanted |= (offsets >= start) & (offsets < until)
        if self.refused:
            wanted &= ~np.isin(offsets, self.refused)
        return rows if wanted.all() else rows.filter(pa.array(wanted))


def make_recipe(settings: Settings, load: Load) -> Recipe:
    """Make the recipe of a load; it also serves all other loads with the same declaration."""
    columns = [
        sql.SQL("null::{} as {}").format(type_sql(type_), sql.Identifier(name))
        for name, (type_, _) in describe_columns(load.declaration).items()
    ]
    pieces = {
        "target": target_identifier(load.declaration.target),
        "row_hash": hash_row(load.declaration),
        "columns": sql.SQL(", ").join(columns),
    }
    create, hash_, compare = compose_rebuild(pieces)
    return Recipe(make_assignment(settings, load, load.attempt), create, hash_, compare)


class RebuiltTable:
    """A session with a temporary table for rebuilt rows. Each call replaces the rows of the call before it."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.decoder = Decoder(recipe.assignment.layout, recipe.assignment.load_id)
        self.rejected: set[int] = set()
        self._error: BaseException | None = None
        self._connection = open_connection(recipe.assignment)
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(recipe.create)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def sum_rows(self, batches: Iterator[Batch], compared: ComparedOffsets) -> RowSum:
        """Rebuild rows, and compute their fingerprint."""
        self._copy(batches, compared)
        ((rows, hash_),) = self._query(self.recipe.hash)
        return RowSum(rows, int(hash_))

    def compare(
        self, batches: Iterator[Batch], compared: ComparedOffsets, range_: Range, *, compacted: bool
    ) -> list[Any]:
        """Rebuild the rows of a range; return the first differences of the target (offset, kind, number of all)."""
        self._copy(batches, compared)
        where = (range_.partition, range_.from_offset, range_.until_offset)
        return self._query(self.recipe.compare, (self.recipe.assignment.load_id, *where, compacted))

    def _copy(self, batches: Iterator[Batch], compared: ComparedOffsets) -> None:
        self.rejected.clear()
        rows = pa.RecordBatchReader.from_batches(self.decoder.schema, self._decode(batches, compared))
        with closing(self._connection.cursor()) as cursor:
            cursor.execute("begin")  # the table is emptied when the transaction ends
            try:
                cursor.adbc_ingest("rebuilt", rows, mode="append", temporary=True)
            except AdbcError as error:
                if self._error is not None:
                    raise self._error from None
                raise PenstockError(
                    f"PostgreSQL refused rows that were decoded again: {quote_server(error, self.recipe.assignment)}.",
                    pipeline=self.recipe.assignment.pipeline,
                    next_step=advice.CHECK_POSTGRES_THEN_VERIFY,
                ) from None

    def _decode(self, batches: Iterator[Batch], compared: ComparedOffsets) -> Iterator[pa.RecordBatch]:
        """Decode batches. An error is stored, because Arrow does not pass it on."""
        try:
            for decoded in map(self.decoder.decode, batches):
                self.rejected.update(record.offset for record in decoded.rejected)
                rows = compared.filter(decoded.rows)
                if len(rows):
                    yield rows
        except BaseException as error:
            self._error = error
            raise

    def _query(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement, values)
            found = list(cursor.fetchall())
            cursor.execute("commit")
        return found
