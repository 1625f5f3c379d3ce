"""Records become rows once more: decoded, copied into a table of the session, and hashed there by PostgreSQL.

Only PostgreSQL can take the hash of a row. It takes it of what the COPY has stored, so a fault of decoding or of the
COPY of the load shows in the comparison.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from adbc_driver_manager import Error as AdbcError

from penstock import advice
from penstock.errors import PenstockError
from penstock.ledger.verification import compose_rebuild
from penstock.records.decoder import Decoder
from penstock.target.assignment import make_assignment
from penstock.target.postgres.copy import open_connection, quote_server
from penstock.target.postgres.rows import hash_row
from penstock.target.postgres.table import target_identifier

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
    """How records of loads with one declaration become rows again: what a task has to know, and no more."""

    assignment: Assignment
    create: str
    hash: str
    compare: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """The offsets of a chunk whose rows are compared: those that its load covers, without some single ones."""

    covered: tuple[tuple[int, int], ...]
    without: tuple[int, ...]

    def pick(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of these offsets."""
        offsets = rows["_offset"].to_numpy()
        wanted = np.zeros(len(offsets), bool)
        for start, until in self.covered:
            wanted |= (offsets >= start) & (offsets < until)
        if self.without:
            wanted &= ~np.isin(offsets, self.without)
        return rows if wanted.all() else rows.filter(pa.array(wanted))


@dataclass(frozen=True, slots=True)
class RowSum:
    """The fingerprint of rows."""

    rows: int = 0
    hash: int = 0


def make_recipe(settings: Settings, load: Load) -> Recipe:
    """Make the recipe of a load, and of all others with the same declaration."""
    names = {"target": target_identifier(load.declaration.target), "row_hash": hash_row(load.declaration)}
    create, hash_, compare = compose_rebuild(names)
    return Recipe(make_assignment(settings, load, load.attempt), create, hash_, compare)


class Again:
    """A session with a table that takes rows once more; its rows last until the next ones come."""

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

    def sum_rows(self, batches: Iterator[Batch], chosen: Chosen) -> RowSum:
        """The fingerprint of the rows that records give."""
        self._copy(batches, chosen)
        ((rows, hash_),) = self._query(self.recipe.hash)
        return RowSum(rows, int(hash_))

    def compare(self, batches: Iterator[Batch], chosen: Chosen, range_: Range, *, compacted: bool) -> list[Any]:
        """The offsets of a range at which the target holds another row than its record gives, or none, or one more."""
        self._copy(batches, chosen)
        where = (range_.partition, range_.from_offset, range_.until_offset)
        return self._query(self.recipe.compare, (self.recipe.assignment.load_id, *where, compacted))

    def _copy(self, batches: Iterator[Batch], chosen: Chosen) -> None:
        self.rejected.clear()
        rows = pa.RecordBatchReader.from_batches(self.decoder.schema, self._decode(batches, chosen))
        with closing(self._connection.cursor()) as cursor:
            cursor.execute("begin")  # the rows last until its end
            try:
                cursor.adbc_ingest("again", rows, mode="append", temporary=True)
            except AdbcError as error:
                if self._error is not None:
                    raise self._error from None
                raise PenstockError(
                    f"PostgreSQL refused rows that were decoded again: {quote_server(error, self.recipe.assignment)}.",
                    pipeline=self.recipe.assignment.pipeline,
                    next_step=advice.CHECK_POSTGRES_THEN_VERIFY,
                ) from None

    def _decode(self, batches: Iterator[Batch], chosen: Chosen) -> Iterator[pa.RecordBatch]:
        """An error is kept, for Arrow loses it."""
        try:
            for decoded in map(self.decoder.decode, batches):
                self.rejected.update(record.offset for record in decoded.rejected)
                rows = chosen.pick(decoded.rows)
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
