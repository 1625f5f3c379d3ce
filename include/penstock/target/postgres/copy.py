"""Writing the rows of the path in Python, which are columns of Arrow, by the COPY of ADBC."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from adbc_driver_manager import Error as AdbcError
from adbc_driver_postgresql import dbapi

from penstock.ledger.session import OVERRIDE
from penstock.records.quarantine import make_quarantine
from penstock.target.postgres.chunks import (
    is_refusal,
    make_copy_error,
    make_refusal,
    make_session,
    quote_refusal,
    write_chunks,
)
from penstock.target.postgres.table import STAGE_SCHEMA
from penstock.target.row_stream import RowStream, WrittenChunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.kafka.readers.contract import CheckedChunks
    from penstock.model.ranges import Chunk
    from penstock.records.decoder import Decoded
    from penstock.records.fingerprint import LogFingerprint
    from penstock.records.rejection import RejectedRecord
    from penstock.target.assignment import Assignment


def write_group(
    assignment: Assignment,
    chunks: Sequence[Chunk],
    schema: pa.Schema,
    checked: CheckedChunks,
    seen: Mapping[int, LogFingerprint],
    decoded: Iterator[tuple[int, Decoded]],
    *,
    piecewise: bool = False,
) -> list[WrittenChunk]:
    """Write chunks in one transaction: rows, quarantined records, and the ledger's rows that mark the chunks as done.

    With `piecewise` each batch is a COPY of its own. A refused batch is halved until the refused piece is one row, and
    the record of that row is quarantined.
    """
    try:
        with closing(open_connection(assignment)) as connection, closing(connection.cursor()) as cursor:
            stream = RowStream(assignment, decoded)
            copy = _copy_pieces if piecewise else _copy_stream

            def write() -> None:
                copy(cursor, schema, stream)
                _write_quarantine(cursor, stream)

            return write_chunks(cursor, stream, chunks, checked, seen, write)
    except AdbcError as error:
        raise make_copy_error(
            error, assignment, chunks
        ) from None  # the text of `error` quotes values of rows, and may contain the password


def open_connection(assignment: Assignment) -> Any:  # noqa: ANN401 - ADBC has no types
    """Connect for COPY.

    The caller executes BEGIN itself, because a transaction of ADBC cannot be rolled back to a savepoint.
    """
    connection = dbapi.connect(make_session(assignment), autocommit=True)
    with closing(connection.cursor()) as cursor:
        cursor.execute(OVERRIDE)
        cursor.fetchall()
    return connection


def _copy_stream(cursor: Any, schema: pa.Schema, stream: RowStream[Decoded]) -> None:  # noqa: ANN401
    """COPY rows in one stream, until the group ends or many quarantined records wait."""
    copy_batches(cursor, stream.assignment, schema, stream.batches(), lambda: stream.error)


def copy_batches(
    cursor: Any,  # noqa: ANN401
    assignment: Assignment,
    schema: pa.Schema,
    batches: Iterator[pa.RecordBatch],
    find_error: Callable[[], BaseException | None],
    row: str = "a row",
) -> None:
    """COPY batches in one stream. `find_error` finds the error that ended them; Arrow hands over its text only."""
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    try:
        cursor.adbc_ingest(assignment.table, reader, mode="append", db_schema_name=STAGE_SCHEMA)
    except AdbcError as error:
        ended_by = find_error()
        if ended_by is not None:
            raise ended_by from None  # the error of PostgreSQL only repeats this one
        if is_refusal(error.sqlstate, str(error)):
            raise make_refusal(error, assignment, row) from None  # the text of `error` quotes values of rows
        raise


def _copy_pieces(cursor: Any, _: pa.Schema, stream: RowStream[Decoded]) -> None:  # noqa: ANN401
    """COPY batch by batch, and quarantine the records of rows that PostgreSQL refuses."""
    for task, part in stream.parts():
        for place, error in copy_halves(cursor, stream.assignment, part.rows, stream.accept):
            stream.refuse(task, part, place, quote_refusal(error))


def copy_halves(
    cursor: Any,  # noqa: ANN401
    assignment: Assignment,
    rows: pa.RecordBatch,
    accept: Callable[[int], None],
) -> Iterator[tuple[int, AdbcError]]:
    """COPY rows, and yield the places of refused rows. A refused piece is halved until it is one row."""
    waiting = [(0, len(rows))]
    while waiting:
        start, count = waiting.pop()
        # Copied, not sliced, so that the rows of the piece have no offset into a larger array.
        piece = rows.take(pa.array(range(start, start + count)))
        cursor.execute("savepoint piece")
        try:
            cursor.adbc_ingest(assignment.table, piece, mode="append", db_schema_name=STAGE_SCHEMA)
            accept(count)
        except AdbcError as error:
            if not is_refusal(error.sqlstate, str(error)):
                raise
            cursor.execute("rollback to savepoint piece")
            if count == 1:
                yield start, error
            else:
                waiting += [(start + count // 2, count - count // 2), (start, count // 2)]
        cursor.execute("release savepoint piece")


def _write_quarantine(cursor: Any, stream: RowStream[Decoded]) -> None:  # noqa: ANN401
    write_rejected(cursor, stream.assignment, stream.take_quarantine())


def write_rejected(cursor: Any, assignment: Assignment, rejected: Sequence[RejectedRecord]) -> None:  # noqa: ANN401
    """COPY rejected records into the quarantine."""
    if rejected:
        batch = make_quarantine(assignment.load_id, assignment.attempt, rejected)
        cursor.adbc_ingest("quarantine", batch, mode="append", db_schema_name="penstock")
