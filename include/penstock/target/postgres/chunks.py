"""Writing chunks in one transaction, whichever connection and path write the rows, and the errors of it.

A primary key of the ledger accepts one try of each task.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from psycopg import Error as PsycopgError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock import advice
from penstock.errors import FencedError, StageError
from penstock.ledger.session import make_parameters
from penstock.ledger.stage_task import compose_find, compose_settle
from penstock.model.ranges import Range
from penstock.target.row_stream import WrittenChunk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Never

    from adbc_driver_manager import Error as AdbcError

    from penstock.kafka.readers.contract import CheckedChunks
    from penstock.model.ranges import Chunk
    from penstock.records.fingerprint import LogFingerprint
    from penstock.target.assignment import Assignment
    from penstock.target.row_stream import RowStream

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


# The path of a chunk's records. With reader `spark` records take the path in Python.
Path: TypeAlias = Literal["rust", "python"]
# An error of ADBC or of psycopg: both have a `sqlstate`.
ServerError: TypeAlias = "AdbcError | PsycopgError"


class RowsRefusedError(StageError):
    """PostgreSQL refused a row in the middle of a COPY. The next try copies in pieces, and finds the row."""


def write_chunks(
    cursor: Any,  # noqa: ANN401 - of ADBC, or of psycopg
    stream: RowStream[Any],
    chunks: Sequence[Chunk],
    checked: CheckedChunks,
    seen: Mapping[int, LogFingerprint],
    write: Callable[[], None],
    path: Path = "python",
) -> list[WrittenChunk]:
    """Write a stream in one transaction. `write` copies rows until the stream ends or many quarantined records wait."""
    assignment = stream.assignment
    cursor.execute("begin")
    done = find_done(cursor, assignment, chunks)
    if done is not None:
        return done
    while not stream.ended:
        write()
    written = [stream.describe_chunk(chunk.task, checked.chunks[chunk.task]) for chunk in chunks]
    if not settle(cursor, assignment, chunks, written, seen, path):
        cursor.execute("rollback")
        return find_done(cursor, assignment, chunks) or _raise_vanished(assignment, chunks)
    cursor.execute("commit")
    return written


def make_session(assignment: Assignment) -> str:
    """Make the connection string of a session that copies, with the settings of every connection of Penstock."""
    limits = {
        "statement_timeout": str(assignment.timeout_seconds * 1000),
        # The server ends the session of a process that hangs within a transaction.
        "idle_in_transaction_session_timeout": "300000",
    }
    return make_conninfo(assignment.db, **CONNECTION | make_parameters(assignment.db, **limits))


def make_refusal(error: ServerError, assignment: Assignment, row: str = "a row") -> RowsRefusedError:
    """Make the error of a COPY that the server refused because of a row."""
    return RowsRefusedError(
        f"PostgreSQL refused {row}: {quote_refusal(error)}.",
        pipeline=assignment.pipeline,
        load=assignment.load_id,
        next_step=advice.RETRY_STAGE_AFTER_REFUSAL,
    )


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
    path: Path = "python",
) -> bool:
    """Record that the chunks are done; false if another try did so before, or the attempt is not current any more."""
    rows = [
        asdict(chunk.range)
        | {"task": each.task, "rows": each.rows, "quarantined": each.quarantined, "holes": each.holes}
        | {"log_hash": seen[each.task].hash, "path": path}
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


def make_copy_error(error: ServerError, assignment: Assignment, chunks: Sequence[Chunk]) -> StageError:
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


def quote_server(error: ServerError, assignment: Assignment) -> str:
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


def find_message_line(error: ServerError) -> str:
    """Find the line with the message of the server; the lines of details and context after it may show values."""
    primary = error.diag.message_primary if isinstance(error, PsycopgError) else None
    lines = (primary or str(error)).strip().splitlines() or ["no reason given"]
    return next((line for line in lines if re.search("ERROR:|FATAL:|PANIC:", line)), lines[0])


def quote_refusal(error: ServerError) -> str:
    """Quote the message of a refusal, without the values that the message may quote."""
    # ADBC's line begins with its own words and the severity; psycopg's is the message alone.
    line = find_message_line(error)
    message = (line.partition("ERROR:")[2] or line).strip()
    return f"{QUOTED_VALUE.sub(': …', message)} (SQLSTATE {error.sqlstate})"
