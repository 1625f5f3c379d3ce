"""The second half of a load with a transform, on the executors: copy the rows of a part of the DataFrame.

A part is a partition of the transformed DataFrame: it may hold rows of any chunk. Its rows and the record of their
offsets are one transaction, which one try of the part wins.
"""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
from adbc_driver_manager import Error as AdbcError

from penstock import advice
from penstock.errors import PenstockError, RejectedRecordError, StageError
from penstock.ledger.transform import compose
from penstock.load.transform.account import WrittenRows, mark_places, pack_places
from penstock.model.ranges import Range
from penstock.records.rejection import Rejection
from penstock.records.rust import encode_rows
from penstock.records.spark_columns import RowMaker, repeat_number
from penstock.rust_package import find_package
from penstock.spark.error_transport import TaskError
from penstock.target.postgres.binary_copy import copy_rows, open_session
from penstock.target.postgres.chunks import (
    make_copy_error,
    quote_refusal,
    refuse_old_attempt,
)
from penstock.target.row_stream import MAX_REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from penstock.model.ranges import Chunk
    from penstock.records.decoder import Layout
    from penstock.target.assignment import Assignment

RESULT = "part int, rows bigint"
ROW = "a row of the transform"


def make_writer(
    assignment: Assignment, layout: Layout, chunks: Sequence[Chunk]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that Spark runs on the executors, from rows of the transform to their number."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "runs in a Spark task"  # noqa: S101
        part = context.partitionId()
        # Rows can be read once in a try: the next try copies them in pieces, to find those that the target refuses.
        piecewise = context.attemptNumber() > 0
        try:
            rows = _Part(assignment, layout, chunks, part).write(batches, piecewise=piecewise)
        except PenstockError as error:
            raise TaskError(error.fill(assignment.pipeline, assignment.load_id)) from None
        counts = [repeat_number(part, 1, pa.int32()), repeat_number(rows, 1, pa.int64())]
        yield pa.RecordBatch.from_arrays(counts, ["part", "rows"])

    return run


class _Part:
    """One try at writing a part."""

    def __init__(self, assignment: Assignment, layout: Layout, chunks: Sequence[Chunk], part: int) -> None:
        self.assignment, self.part = assignment, part
        self.chunks = {chunk.task: chunk for chunk in chunks}
        self.maker = RowMaker(layout, assignment.load_id)
        self.written = WrittenRows(chunks)
        self.error: BaseException | None = None

    def write(self, batches: Iterator[pa.RecordBatch], *, piecewise: bool) -> int:
        """Copy the rows, and return their number."""
        first = next((batch for batch in batches if len(batch)), None)
        if first is None:
            return 0
        package = find_package() if self.assignment.source.rust and not piecewise else None
        rows = chain([first], batches)
        try:
            if package is not None:
                self._write_encoded(package, rows)
            else:
                self._write_columns(rows, piecewise=piecewise)
        except (AdbcError, psycopg.Error) as error:
            raise make_copy_error(error, self.assignment, list(self.chunks.values())[:1]) from None  # it quotes values
        return self.written.accepted

    def _write_columns(self, batches: Iterator[pa.RecordBatch], *, piecewise: bool) -> None:
        """Write Arrow's columns by ADBC."""
        from penstock.target.postgres.copy import open_connection  # ADBC imports pandas: 0.4 s that Rust does not need

        copy = self._copy_pieces if piecewise else self._copy_stream
        with closing(open_connection(self.assignment)) as connection, closing(connection.cursor()) as cursor:
            self._write(cursor, lambda: copy(cursor, batches))

    def _write_encoded(self, package: ModuleType, batches: Iterator[pa.RecordBatch]) -> None:
        """Write rows that Rust encodes, by one stream of libpq."""
        with open_session(self.assignment) as connection:
            self._write(psycopg.RawCursor(connection), lambda: self._copy_encoded(connection, package, batches))

    def _write(self, cursor: Any, copy: Callable[[], None]) -> None:  # noqa: ANN401
        cursor.execute("begin")
        if not self._is_done(cursor):
            copy()
            self._record(cursor)
        cursor.execute("commit")

    def _is_done(self, cursor: Any) -> bool:  # noqa: ANN401
        cursor.execute(compose("find_written"), (self.assignment.load_id, self.assignment.attempt, self.part))
        [(current, done)] = cursor.fetchall() or [(False, False)]
        refuse_old_attempt(self.assignment, current=bool(current))
        return bool(done)

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Make rows. An error is kept in `error`, because Arrow would lose it."""
        try:
            for batch in batches:
                self.written.add(batch)
                made = self.maker.make(batch)
                for index, rejection in made.rejections.items():
                    self._refuse(batch["_partition"][index].as_py(), batch["_offset"][index].as_py(), rejection)
                if len(made.rows):
                    yield made.rows
        except BaseException as error:
            self.error = error
            raise

    def _accept(self, rows: int) -> None:
        self.written.accepted += rows

    def _copy_stream(self, cursor: Any, batches: Iterator[pa.RecordBatch]) -> None:  # noqa: ANN401
        def count(rows: pa.RecordBatch) -> pa.RecordBatch:
            self._accept(len(rows))
            return rows

        from penstock.target.postgres.copy import copy_batches

        rows = map(count, self._rows(batches))
        copy_batches(cursor, self.assignment, self.maker.schema, rows, lambda: self.error, ROW)

    def _copy_encoded(
        self, connection: psycopg.Connection, package: ModuleType, batches: Iterator[pa.RecordBatch]
    ) -> None:
        def encode() -> Iterator[bytes]:
            for rows in self._rows(batches):
                self._accept(len(rows))
                yield encode_rows(package, rows, self.maker.types)

        copy_rows(connection, self.assignment, self.maker.schema.names, encode(), ROW)

    def _copy_pieces(self, cursor: Any, batches: Iterator[pa.RecordBatch]) -> None:  # noqa: ANN401
        from penstock.target.postgres.copy import copy_halves

        for rows in self._rows(batches):
            for place, error in copy_halves(cursor, self.assignment, rows, self._accept):
                rejection = Rejection("refused_by_database", quote_refusal(error))
                self._refuse(rows["_partition"][place].as_py(), rows["_offset"][place].as_py(), rejection)

    def _refuse(self, partition: int, offset: int, rejection: Rejection) -> None:
        """Note a row that the target cannot hold. The driver quarantines its record."""
        assignment, place = self.assignment, Range(partition, offset, offset + 1)
        self.written.refuse(partition, offset, rejection)
        limit = assignment.max_quarantined
        if assignment.stop_at_rejection or (limit is not None and self.written.refused > limit):
            why = (
                "the pipeline says `poison: stop`" if assignment.stop_at_rejection else f"`max_quarantined` is {limit}"
            )
            raise RejectedRecordError(
                f"{why}, and the target cannot hold the row that the transform made of the record at offset {offset}: "
                f"{rejection.reason}: {rejection.detail}.",
                ranges=[place],
                next_step=advice.CORRECT_OR_QUARANTINE,
            )
        if self.written.refused > max(MAX_REFUSED, self.written.accepted):
            raise StageError(
                f"the target cannot hold {self.written.refused} rows of the transform in one task, and accepted "
                f"{self.written.accepted}: {rejection.reason}: {rejection.detail}.",
                ranges=[place],
                next_step=advice.COMPARE_TRANSFORM,
            )

    def _record(self, cursor: Any) -> None:  # noqa: ANN401
        rows = [
            {
                "task": task,
                "rows": written.rows,
                "places": b64encode(self._pack(task)).decode(),
                "hash": written.hash,
                "refused": written.refused,
            }
            for task, written in self.written.of_task.items()
        ]
        values = (self.assignment.load_id, self.assignment.attempt, self.part, json.dumps(rows))
        cursor.execute(compose("record_written"), values)
        if len(cursor.fetchall()) != len(rows):
            raise StageError(
                f"another try of part {self.part} of attempt {self.assignment.attempt} writes its rows.",
                next_step=advice.RETRY_STAGE,
            )

    def _pack(self, task: int) -> bytes:
        import numpy as np

        return pack_places(mark_places(np.concatenate(self.written.of_task[task].offsets), self.chunks[task].range))
