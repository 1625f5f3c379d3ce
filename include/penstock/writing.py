"""Writing a chunk: one connection, one transaction, and a key that lets one try of each task through."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from adbc_driver_manager import Error as AdbcError
from adbc_driver_postgresql import dbapi
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.errors import FencedError, PoisonError, StageError
from penstock.quarantining import make_quarantine, weigh
from penstock.ranges import Range
from penstock.statements import read_statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.assignment import Assignment
    from penstock.decoding import Decoded, Poison
    from penstock.proof.records import LogFingerprint
    from penstock.ranges import Chunk
    from penstock.reading.contract import CheckedChunk

# A COPY cannot be interrupted to write to another table: it ends when so much of the quarantine waits.
WAITING_BYTES = 8 * 1024 * 1024
CONNECTION = {
    "application_name": "penstock stage",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a chunk; `won` is false if another try of the same task had written it."""

    task: int
    rows: int
    quarantined: int
    holes: int
    won: bool


def write_chunk(
    assignment: Assignment,
    chunk: Chunk,
    schema: pa.Schema,
    checked: CheckedChunk,
    seen: LogFingerprint,
    decoded: Iterator[Decoded],
) -> Written:
    """Write a chunk in one transaction: its rows, its quarantine, and the row that says it is done."""
    try:
        with closing(open_connection(assignment)) as connection, closing(connection.cursor()) as cursor:
            done = _find_done(cursor, assignment, chunk)
            if done is not None:
                return done
            flow = _Flow(assignment, decoded)
            while not flow.ended:
                _copy(cursor, assignment, schema, flow)
            written = Written(chunk.task, flow.rows, flow.quarantined, checked.holes, won=True)
            if not _settle(cursor, assignment, chunk, written, seen):
                connection.rollback()
                return _find_done(cursor, assignment, chunk) or _vanished(assignment, chunk)
            connection.commit()
            return written
    except AdbcError as error:
        raise _explain(error, assignment, chunk) from None  # its text quotes values of rows, and may hold the password


def open_connection(assignment: Assignment) -> Any:  # noqa: ANN401 - ADBC has no types
    connection = dbapi.connect(make_conninfo(assignment.db, **CONNECTION))
    # Should this process be stopped for good and never be seen again, the server ends what it began.
    with closing(connection.cursor()) as cursor:
        cursor.execute(f"set statement_timeout = {assignment.timeout_seconds * 1000:d}")
        cursor.execute("set idle_in_transaction_session_timeout = '5min'")
        connection.commit()
    return connection


class _Flow:
    """The decoded batches on their way to the table; the poison among them waits for its turn."""

    def __init__(self, assignment: Assignment, decoded: Iterator[Decoded]) -> None:
        self.assignment = assignment
        self.decoded = decoded
        self.ended = False
        self.error: BaseException | None = None
        self.rows = self.quarantined = self._waiting_bytes = 0
        self._waiting: list[Poison] = []

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Hand over rows until the quarantine is heavy or the chunk has ended; an error is kept, for Arrow loses it."""
        try:
            for part in self.decoded:
                self._keep(part.poison)
                self.rows += len(part.rows)
                if len(part.rows):
                    yield part.rows
                if self._waiting_bytes > WAITING_BYTES:
                    return
            self.ended = True
        except BaseException as error:
            self.error = error
            raise

    def take_quarantine(self) -> list[Poison]:
        """The poison that waits; it waits no longer."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def _keep(self, poison: list[Poison]) -> None:
        if not poison:
            return
        if self.assignment.stop_at_poison:
            raise self._refuse(poison[0], "the pipeline says `poison: stop`")
        self.quarantined += len(poison)
        limit = self.assignment.max_quarantined
        if limit is not None and self.quarantined > limit:
            raise self._refuse(poison[-1], f"more than `max_quarantined: {limit}` records")
        self._waiting += poison
        self._waiting_bytes += sum(map(weigh, poison))

    def _refuse(self, record: Poison, why: str) -> PoisonError:
        return PoisonError(
            f"{why}, and the record at offset {record.offset} cannot become a row: {record.reason}: {record.detail}.",
            pipeline=self.assignment.pipeline,
            load=self.assignment.load_id,
            ranges=[Range(record.partition, record.offset, record.offset + 1)],
            next_step="mend the declaration or the limit, or let the records go to the quarantine.",
        )


def _copy(cursor: Any, assignment: Assignment, schema: pa.Schema, flow: _Flow) -> None:  # noqa: ANN401
    reader = pa.RecordBatchReader.from_batches(schema, flow.stream())
    try:
        cursor.adbc_ingest(assignment.table, reader, mode="append", db_schema_name="penstock_stage")
    except AdbcError:
        if flow.error is not None:
            raise flow.error from None  # PostgreSQL only repeats it
        raise
    poison = flow.take_quarantine()
    if poison:
        batch = make_quarantine(assignment.load_id, assignment.attempt, poison)
        cursor.adbc_ingest("quarantine", batch, mode="append", db_schema_name="penstock")


def _find_done(cursor: Any, assignment: Assignment, chunk: Chunk) -> Written | None:  # noqa: ANN401
    """What another try of this task has written; an attempt that counts no more is stopped here."""
    cursor.execute(_statement("find_stage_task"), (assignment.load_id, assignment.attempt, chunk.task))
    found = cursor.fetchone()
    if found is None or not found[0]:
        raise FencedError(
            f"attempt {assignment.attempt} is not the one that counts any more; what it staged is dropped.",
            pipeline=assignment.pipeline,
            load=assignment.load_id,
            next_step="nothing to do, if another attempt or load goes on; `penstock status` shows where it stands.",
        )
    if found[1] is None:
        return None
    if Range(*found[4:]) != chunk.range:
        raise _refuse_bounds(assignment, chunk, Range(*found[4:]))
    return Written(chunk.task, found[1], found[2], found[3], won=False)


def _refuse_bounds(assignment: Assignment, chunk: Chunk, found: Range) -> StageError:
    return StageError(
        f"task {chunk.task} of attempt {assignment.attempt} has been written with other bounds: {found}.",
        pipeline=assignment.pipeline,
        load=assignment.load_id,
        ranges=[chunk.range],
        next_step="try the stage step again; it begins a new attempt.",
    )


def _settle(
    cursor: Any,  # noqa: ANN401
    assignment: Assignment,
    chunk: Chunk,
    written: Written,
    seen: LogFingerprint,
) -> bool:
    """Put down that the task is done; false if another try did, or if the attempt counts no more."""
    range_ = chunk.range
    who = (assignment.load_id, assignment.attempt, chunk.task)
    where = (range_.partition, range_.from_offset, range_.until_offset)
    what = (written.rows, written.quarantined, written.holes, seen.hash)
    cursor.execute(_statement("settle_stage_task"), who + where + what)
    return cursor.fetchone() is not None


def _statement(name: str) -> str:
    return read_statements("staging")[name].decode()


def _vanished(assignment: Assignment, chunk: Chunk) -> Written:
    raise StageError(
        f"task {chunk.task} of attempt {assignment.attempt} was neither written nor refused.",
        pipeline=assignment.pipeline,
        load=assignment.load_id,
        ranges=[chunk.range],
        next_step="try the stage step again.",
    )


def _explain(error: AdbcError, assignment: Assignment, chunk: Chunk) -> StageError:
    return StageError(
        f"PostgreSQL ended the COPY of task {chunk.task}: {quote_server(error, assignment)}.",
        pipeline=assignment.pipeline,
        load=assignment.load_id,
        ranges=[chunk.range],
        next_step="check that PostgreSQL runs, then try the stage step again.",
    )


def quote_server(error: AdbcError, assignment: Assignment) -> str:
    """The server's sentence, without the context lines that may show values, and without the password."""
    lines = str(error).strip().splitlines() or ["no reason given"]
    told = next((line for line in lines if "ERROR:" in line or "FATAL:" in line), lines[0])
    password = conninfo_to_dict(assignment.db).get("password")
    if password:
        told = told.replace(str(password), "***")
    return f"{told} (SQLSTATE {error.sqlstate or 'none'})"
