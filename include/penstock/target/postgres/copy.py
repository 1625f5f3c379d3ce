"""Writing chunks with COPY: one connection, one transaction, and a primary key that accepts one try of each task."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from adbc_driver_manager import Error as AdbcError
from adbc_driver_postgresql import dbapi
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock import advice
from penstock.errors import FencedError, StageError
from penstock.ledger.session import OVERRIDE, make_parameters
from penstock.ledger.stage_task import compose_find, compose_settle
from penstock.model.ranges import Range
from penstock.records.quarantine import make_quarantine
from penstock.target.postgres.table import STAGE_SCHEMA
from penstock.target.row_stream import RowStream, WrittenChunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Never

    from penstock.kafka.readers.contract import CheckedChunks
    from penstock.model.ranges import Chunk
    from penstock.records.decoder import Decoded
    from penstock.records.fingerprint import LogFingerprint
    from penstock.records.rejection import RejectedRecord
    from penstock.target.assignment import Assignment

CONNECTION = {
    "application_name": "penstock stage",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


# The part of a server message that quotes a value.
QUOTED_VALUE = re.compile(': ".*')
# SQLSTATE classes of refused rows: invalid values, broken constraints, rows beyond a limit of the server, rows that
# need too much memory (53200). A full disk (53100) is not a refusal.
REFUSAL_STATES = ("22", "23", "54", "53200")


class RowsRefusedError(StageError):
    """PostgreSQL refused a row in the middle of a COPY. The next try copies in pieces, and finds the row."""


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
            cursor.execute("begin")
            done = find_done(cursor, assignment, chunks)
            if done is not None:
                return done
            stream = RowStream(assignment, decoded)
            copy = _copy_pieces if piecewise else _copy_stream
            while not stream.ended:
                copy(cursor, schema, stream)
                _write_quarantine(cursor, stream)
            written = [stream.describe_chunk(chunk.task, checked.chunks[chunk.task]) for chunk in chunks]
            if not settle(cursor, assignment, chunks, written, seen):
                cursor.execute("rollback")
                return find_done(cursor, assignment, chunks) or _raise_vanished(assignment, chunks)
            cursor.execute("commit")
            return written
    except AdbcError as error:
        raise make_copy_error(
            error, assignment, chunks
        ) from None  # the text of `error` quotes values of rows, and may contain the password


def open_connection(assignment: Assignment) -> Any:  # noqa: ANN401 - ADBC has no types
    """Connect for COPY, with the session settings of every connection of Penstock.

    The caller executes BEGIN itself, because a transaction of ADBC cannot be rolled back to a savepoint.
    """
    limits = {
        "statement_timeout": str(assignment.timeout_seconds * 1000),
        # The server ends the session of a process that hangs within a transaction.
        "idle_in_transaction_session_timeout": "300000",
    }
    parameters = CONNECTION | make_parameters(assignment.db, **limits)
    connection = dbapi.connect(make_conninfo(assignment.db, **parameters), autocommit=True)
    with closing(connection.cursor()) as cursor:
        cursor.execute(OVERRIDE)
        cursor.fetchall()
    return connection


def _copy_stream(cursor: Any, schema: pa.Schema, stream: RowStream) -> None:  # noqa: ANN401
    """COPY rows in one stream, until the group ends or many quarantined records wait."""
    assignment, reader = stream.assignment, pa.RecordBatchReader.from_batches(schema, stream.batches())
    try:
        cursor.adbc_ingest(assignment.table, reader, mode="append", db_schema_name=STAGE_SCHEMA)
    except AdbcError as error:
        if stream.error is not None:
            raise stream.error from None  # the error of PostgreSQL only repeats this one
        if is_refusal(error.sqlstate, str(error)):
            raise RowsRefusedError(
                f"PostgreSQL refused a row: {quote_refusal(error)}.",
                pipeline=assignment.pipeline,
                load=assignment.load_id,
                next_step=advice.RETRY_STAGE_AFTER_REFUSAL,
            ) from None  # the text of `error` quotes values of rows
        raise


def _copy_pieces(cursor: Any, _: pa.Schema, stream: RowStream) -> None:  # noqa: ANN401
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


def _write_quarantine(cursor: Any, stream: RowStream) -> None:  # noqa: ANN401
    write_rejected(cursor, stream.assignment, stream.take_quarantine())


def write_rejected(cursor: Any, assignment: Assignment, rejected: Sequence[RejectedRecord]) -> None:  # noqa: ANN401
    """COPY rejected records into the quarantine."""
    if rejected:
        batch = make_quarantine(assignment.load_id, assignment.attempt, rejected)
        cursor.adbc_ingest("quarantine", batch, mode="append", db_schema_name="penstock")


def find_done(cursor: Any, assignment: Assignment, chunks: Sequence[Chunk]) -> list[WrittenChunk] | None:  # noqa: ANN401
    """Find the counts of these chunks if another try has written them; refuse an attempt that is not current."""
    tasks = [chunk.task for chunk in chunks]
    cursor.execute(compose_find(), (assignment.load_id, assignment.attempt, min(tasks), max(tasks)))
    found = cursor.fetchall()
    refuse_old_attempt(assignment, current=bool(found) and found[0][0])
    written = {row[1]: row[2:] for row in found if row[1] is not None}
    if not written:
        return None
    for chunk in chunks:
        bounds = written[chunk.task][3:6] if chunk.task in written else None
        if bounds is None or Range(*bounds) != chunk.range:
            raise _refuse_bounds(assignment, chunk, Range(*bounds) if bounds else None)
    found_chunks = ((chunk.task, written[chunk.task]) for chunk in chunks)
    return [WrittenChunk(task, row[0], row[1], row[2], won=False, log_hash=row[6]) for task, row in found_chunks]


def refuse_old_attempt(assignment: Assignment, *, current: bool) -> None:
    """Refuse to write for an attempt that is not current."""
    if not current:
        raise FencedError(
            f"attempt {assignment.attempt} is not the current attempt any more; its staged rows are dropped.",
            pipeline=assignment.pipeline,
            load=assignment.load_id,
            next_step=advice.WAIT_FOR_OTHER_ATTEMPT,
        )


def _refuse_bounds(assignment: Assignment, chunk: Chunk, found: Range | None) -> StageError:
    return StageError(
        f"task {chunk.task} of attempt {assignment.attempt} has been written with another range: {found or 'none'}.",
        pipeline=assignment.pipeline,
        load=assignment.load_id,
        ranges=[chunk.range],
        next_step=advice.RETRY_STAGE_WITH_NEW_ATTEMPT,
    )


def settle(
    cursor: Any,  # noqa: ANN401
    assignment: Assignment,
    chunks: Sequence[Chunk],
    written: Sequence[WrittenChunk],
    seen: Mapping[int, LogFingerprint],
) -> bool:
    """Record that the chunks are done; false if another try did so before, or the attempt is not current any more."""
    rows = [
        asdict(chunk.range)
        | {"task": each.task, "rows": each.rows, "quarantined": each.quarantined, "holes": each.holes}
        | {"log_hash": seen[each.task].hash}
        for chunk, each in zip(chunks, written, strict=True)
    ]
    cursor.execute(compose_settle(), (assignment.load_id, assignment.attempt, json.dumps(rows)))
    return len(cursor.fetchall()) == len(chunks)


def _raise_vanished(assignment: Assignment, chunks: Sequence[Chunk]) -> Never:
    raise StageError(
        f"the ledger has no rows for tasks {chunks[0].task} to {chunks[-1].task} of attempt {assignment.attempt}, "
        "although another try wrote them.",
        pipeline=assignment.pipeline,
        load=assignment.load_id,
        ranges=[chunk.range for chunk in chunks],
        next_step=advice.RETRY_STAGE,
    )


def make_copy_error(error: AdbcError, assignment: Assignment, chunks: Sequence[Chunk]) -> StageError:
    return StageError(
        f"PostgreSQL ended the COPY of task {chunks[0].task}: {quote_server(error, assignment)}.",
        pipeline=assignment.pipeline,
        load=assignment.load_id,
        ranges=[chunk.range for chunk in chunks],
        next_step=advise_server(error.sqlstate),
    )


def advise_server(sqlstate: str | None) -> str:
    """Give the next step after an error of the server."""
    return advice.FREE_DISK_THEN_STAGE if sqlstate == "53100" else advice.CHECK_POSTGRES_THEN_STAGE


def quote_server(error: AdbcError, assignment: Assignment) -> str:
    """Quote the message of the server, without the context lines that may show values, and without the password."""
    line = find_message_line(error)
    password = conninfo_to_dict(assignment.db).get("password")
    if password:
        line = line.replace(str(password), "***")
    return f"{line} (SQLSTATE {error.sqlstate or 'none'})"


def is_refusal(sqlstate: str | None, text: str) -> bool:
    """Whether PostgreSQL refused a row because of its values, and would refuse the row again."""
    state = sqlstate or ""
    return state.startswith(REFUSAL_STATES) or (state == "XX000" and "memory" in text)


def find_message_line(error: AdbcError) -> str:
    """Find the line with the message of the server; the context lines around it may show values."""
    lines = str(error).strip().splitlines() or ["no reason given"]
    return next((line for line in lines if re.search("ERROR:|FATAL:|PANIC:", line)), lines[0])


def quote_refusal(error: AdbcError) -> str:
    """Quote the message of a refusal, without the values that the message may quote."""
    message = find_message_line(error).partition("ERROR:")[2].strip() or "no reason given"
    return f"{QUOTED_VALUE.sub(': …', message)} (SQLSTATE {error.sqlstate})"
