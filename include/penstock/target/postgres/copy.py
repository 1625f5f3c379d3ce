"""Writing chunks: one connection, one transaction, and a key that lets one try of each task through."""

from __future__ import annotations

import json
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
from penstock.ledger.statements import read_statements
from penstock.model.ranges import Range
from penstock.records.quarantine import make_quarantine
from penstock.target.postgres.table import STAGE_SCHEMA
from penstock.target.row_flow import Flow, Written, find_line, find_words, is_refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Never

    from penstock.kafka.readers.contract import CheckedChunks
    from penstock.model.ranges import Chunk
    from penstock.records.decoder import Decoded
    from penstock.records.fingerprint import LogFingerprint
    from penstock.target.assignment import Assignment

CONNECTION = {
    "application_name": "penstock stage",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


class RowsRefusedError(StageError):
    """PostgreSQL refused a row in the middle of a COPY; the next try copies piece by piece, and finds it."""


def write_group(
    assignment: Assignment,
    chunks: Sequence[Chunk],
    schema: pa.Schema,
    checked: CheckedChunks,
    seen: Mapping[int, LogFingerprint],
    decoded: Iterator[tuple[int, Decoded]],
    *,
    piecewise: bool = False,
) -> list[Written]:
    """Write chunks in one transaction: their rows, their quarantine, and the rows that say they are done.

    `piecewise`, each batch is a COPY of its own, halved until what PostgreSQL refuses is one row: it is quarantined.
    """
    try:
        with closing(open_connection(assignment)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("begin")
            done = _find_done(cursor, assignment, chunks)
            if done is not None:
                return done
            flow = Flow(assignment, decoded)
            copy = _copy_pieces if piecewise else _copy_stream
            while not flow.ended:
                copy(cursor, schema, flow)
                _write_quarantine(cursor, flow)
            written = [flow.sum_up(chunk.task, checked.chunks[chunk.task]) for chunk in chunks]
            if not _settle(cursor, assignment, chunks, written, seen):
                cursor.execute("rollback")
                return _find_done(cursor, assignment, chunks) or _vanished(assignment, chunks)
            cursor.execute("commit")
            return written
    except AdbcError as error:
        raise _explain(error, assignment, chunks) from None  # its text quotes values of rows, and may hold the password


def open_connection(assignment: Assignment) -> Any:  # noqa: ANN401 - ADBC has no types
    """Connect for COPY, by the session settings of every connection of Penstock.

    Transactions are begun by hand: ADBC's own cannot be rolled back to a savepoint.
    """
    limits = {
        "statement_timeout": str(assignment.timeout_seconds * 1000),
        # The server ends the session of a process that stands still for good.
        "idle_in_transaction_session_timeout": "300000",
    }
    parameters = CONNECTION | make_parameters(assignment.db, **limits)
    connection = dbapi.connect(make_conninfo(assignment.db, **parameters), autocommit=True)
    with closing(connection.cursor()) as cursor:
        cursor.execute(OVERRIDE)
        cursor.fetchall()
    return connection


def _copy_stream(cursor: Any, schema: pa.Schema, flow: Flow) -> None:  # noqa: ANN401
    """COPY all rows up to the end, or until the quarantine is heavy, in one stream."""
    assignment, reader = flow.assignment, pa.RecordBatchReader.from_batches(schema, flow.stream())
    try:
        cursor.adbc_ingest(assignment.table, reader, mode="append", db_schema_name=STAGE_SCHEMA)
    except AdbcError as error:
        if flow.error is not None:
            raise flow.error from None  # PostgreSQL only repeats it
        if is_refusal(error.sqlstate, str(error)):
            raise RowsRefusedError(
                f"PostgreSQL refused a row: {find_words(error)}.",
                pipeline=assignment.pipeline,
                load=assignment.load_id,
                next_step=advice.RETRY_STAGE_AFTER_REFUSAL,
            ) from None  # its text quotes values of rows
        raise


def _copy_pieces(cursor: Any, _: pa.Schema, flow: Flow) -> None:  # noqa: ANN401
    """COPY batch by batch; the rows that PostgreSQL refuses go to the quarantine."""
    for task, part in flow.parts():
        for place, error in _copy_halves(cursor, flow, part.rows):
            flow.refuse(task, part, place, find_words(error))


def _copy_halves(cursor: Any, flow: Flow, rows: pa.RecordBatch) -> Iterator[tuple[int, AdbcError]]:  # noqa: ANN401
    """COPY rows; the places of those that PostgreSQL refuses come back, found by halving what was refused."""
    waiting = [(0, len(rows))]
    while waiting:
        start, count = waiting.pop()
        # Copied, not sliced: the rows on their way to the table then need no offset into an array.
        piece = rows.take(pa.array(range(start, start + count)))
        cursor.execute("savepoint piece")
        try:
            cursor.adbc_ingest(flow.assignment.table, piece, mode="append", db_schema_name=STAGE_SCHEMA)
            flow.taken += count
        except AdbcError as error:
            if not is_refusal(error.sqlstate, str(error)):
                raise
            cursor.execute("rollback to savepoint piece")
            if count == 1:
                yield start, error
            else:
                waiting += [(start + count // 2, count - count // 2), (start, count // 2)]
        cursor.execute("release savepoint piece")


def _write_quarantine(cursor: Any, flow: Flow) -> None:  # noqa: ANN401
    poison = flow.take_quarantine()
    if poison:
        batch = make_quarantine(flow.assignment.load_id, flow.assignment.attempt, poison)
        cursor.adbc_ingest("quarantine", batch, mode="append", db_schema_name="penstock")


def _find_done(cursor: Any, assignment: Assignment, chunks: Sequence[Chunk]) -> list[Written] | None:  # noqa: ANN401
    """The outcome of another try of these chunks, if there is one; an attempt that is no longer current stops here."""
    tasks = [chunk.task for chunk in chunks]
    cursor.execute(_statement("find_stage_tasks"), (assignment.load_id, assignment.attempt, min(tasks), max(tasks)))
    found = cursor.fetchall()
    if not found or not found[0][0]:
        raise FencedError(
            f"attempt {assignment.attempt} is not the one that counts any more; what it staged is dropped.",
            pipeline=assignment.pipeline,
            load=assignment.load_id,
            next_step=advice.WAIT_FOR_OTHER_ATTEMPT,
        )
    written = {row[1]: row[2:] for row in found if row[1] is not None}
    if not written:
        return None
    for chunk in chunks:
        bounds = written[chunk.task][3:] if chunk.task in written else None
        if bounds is None or Range(*bounds) != chunk.range:
            raise _refuse_bounds(assignment, chunk, Range(*bounds) if bounds else None)
    counts = ((chunk.task, written[chunk.task][:3]) for chunk in chunks)
    return [Written(task, rows, quarantined, holes, won=False) for task, (rows, quarantined, holes) in counts]


def _refuse_bounds(assignment: Assignment, chunk: Chunk, found: Range | None) -> StageError:
    return StageError(
        f"task {chunk.task} of attempt {assignment.attempt} has been written with other bounds: {found or 'none'}.",
        pipeline=assignment.pipeline,
        load=assignment.load_id,
        ranges=[chunk.range],
        next_step=advice.RETRY_STAGE_WITH_NEW_ATTEMPT,
    )


def _settle(
    cursor: Any,  # noqa: ANN401
    assignment: Assignment,
    chunks: Sequence[Chunk],
    written: Sequence[Written],
    seen: Mapping[int, LogFingerprint],
) -> bool:
    """Record that the chunks are done; false if another try did, or if the attempt is no longer current."""
    rows = [
        asdict(chunk.range)
        | {"task": each.task, "rows": each.rows, "quarantined": each.quarantined, "holes": each.holes}
        | {"log_hash": seen[each.task].hash}
        for chunk, each in zip(chunks, written, strict=True)
    ]
    cursor.execute(_statement("settle_stage_tasks"), (assignment.load_id, assignment.attempt, json.dumps(rows)))
    return len(cursor.fetchall()) == len(chunks)


def _statement(name: str) -> str:
    return read_statements("ledger/stage_task")[name].decode()


def _vanished(assignment: Assignment, chunks: Sequence[Chunk]) -> Never:
    raise StageError(
        f"tasks {chunks[0].task} to {chunks[-1].task} of attempt {assignment.attempt} vanished.",
        pipeline=assignment.pipeline,
        load=assignment.load_id,
        ranges=[chunk.range for chunk in chunks],
        next_step=advice.RETRY_STAGE,
    )


def _explain(error: AdbcError, assignment: Assignment, chunks: Sequence[Chunk]) -> StageError:
    return StageError(
        f"PostgreSQL ended the COPY of task {chunks[0].task}: {quote_server(error, assignment)}.",
        pipeline=assignment.pipeline,
        load=assignment.load_id,
        ranges=[chunk.range for chunk in chunks],
        next_step=advise_server(error.sqlstate),
    )


def advise_server(sqlstate: str | None) -> str:
    """The next step after an error of the server."""
    return advice.FREE_DISK_THEN_STAGE if sqlstate == "53100" else advice.CHECK_POSTGRES_THEN_STAGE


def quote_server(error: AdbcError, assignment: Assignment) -> str:
    """The server's sentence, without the context lines that may show values, and without the password."""
    told = find_line(error)
    password = conninfo_to_dict(assignment.db).get("password")
    if password:
        told = told.replace(str(password), "***")
    return f"{told} (SQLSTATE {error.sqlstate or 'none'})"
