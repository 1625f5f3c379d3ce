"""Writing chunks whose rows are bytes of PostgreSQL's binary COPY already, over one blocking connection of libpq."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from penstock.declaration.columns import parse_type
from penstock.ledger.session import OVERRIDE
from penstock.records.quarantine import SCHEMA, make_quarantine
from penstock.records.rust import encode_rows
from penstock.rust_package import require_package
from penstock.target.postgres.chunks import is_refusal, make_copy_error, make_refusal, make_session, write_chunks
from penstock.target.postgres.table import STAGE_SCHEMA
from penstock.target.row_stream import RowStream

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from psycopg.abc import Buffer
    from psycopg.pq.abc import PGresult

    from penstock.kafka.readers.contract import CheckedChunks
    from penstock.model.ranges import Chunk
    from penstock.records.fingerprint import LogFingerprint
    from penstock.records.rejection import RejectedRecord
    from penstock.records.rust import Encoded
    from penstock.target.assignment import Assignment
    from penstock.target.row_stream import WrittenChunk

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
# libpq copies each piece into its buffer. Pieces of 32 KB to 4 MB cost the same.
PIECE = 4 * 1024 * 1024
QUARANTINE = dict(
    zip(
        SCHEMA.names,
        map(parse_type, ("bigint", "int", "int", "bigint", "text", "text", "bytea", "bytea", "jsonb", "timestamptz")),
        strict=True,
    )
)


def write_encoded(
    assignment: Assignment,
    chunks: Sequence[Chunk],
    columns: Sequence[str],
    checked: CheckedChunks,
    seen: Mapping[int, LogFingerprint],
    encoded: Iterator[tuple[int, Encoded]],
) -> list[WrittenChunk]:
    """Write chunks in one transaction, as `write_group` does. `columns` are those of the rows, in their order."""
    stream = RowStream(assignment, encoded)
    try:
        with open_session(assignment) as connection:

            def write() -> None:
                pieces = (piece for _, part in stream.parts() for piece in part.pieces)
                copy_rows(connection, assignment, columns, pieces)
                write_rejected(connection, assignment, stream.take_quarantine())

            return write_chunks(psycopg.RawCursor(connection), stream, chunks, checked, seen, write, "rust")
    except psycopg.Error as error:
        raise make_copy_error(
            error, assignment, chunks
        ) from None  # the text of `error` quotes values of rows, and may contain the password


@contextmanager
def open_session(assignment: Assignment) -> Iterator[psycopg.Connection]:
    """Connect for COPY. The caller executes BEGIN itself."""
    with closing(psycopg.connect(make_session(assignment), autocommit=True)) as connection:
        connection.execute(OVERRIDE)
        yield connection


def copy_rows(
    connection: psycopg.Connection,
    assignment: Assignment,
    columns: Sequence[str],
    pieces: Iterable[bytes],
    row: str = "a row",
) -> None:
    """COPY pieces of rows into the attempt's table in one stream."""
    try:
        copy_binary(connection, sql.Identifier(STAGE_SCHEMA, assignment.table), columns, pieces)
    except psycopg.Error as error:
        if is_refusal(error.sqlstate, str(error)):
            raise make_refusal(error, assignment, row) from None  # the text of `error` quotes values of rows
        raise


def write_rejected(connection: psycopg.Connection, assignment: Assignment, rejected: Sequence[RejectedRecord]) -> None:
    """COPY rejected records into the quarantine."""
    if rejected:
        batch = make_quarantine(assignment.load_id, assignment.attempt, rejected)
        rows = encode_rows(require_package(), batch, QUARANTINE)
        copy_binary(connection, sql.Identifier("penstock", "quarantine"), SCHEMA.names, [rows])


def copy_binary(
    connection: psycopg.Connection, table: sql.Identifier, columns: Sequence[str], pieces: Iterable[bytes]
) -> None:
    """COPY pieces of rows. An error of the pieces ends the COPY, and the transaction with it."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("copy {} ({}) from stdin (format binary)").format(table, names)
    with _blocking(connection):
        pgconn = connection.pgconn
        _expect(pgconn.exec_(statement.as_bytes(connection)), ExecStatus.COPY_IN)
        try:
            pgconn.put_copy_data(HEADER)
            for piece in pieces:
                for part in _cut(piece):
                    pgconn.put_copy_data(part)
            pgconn.put_copy_data(TRAILER)
        except BaseException:
            with suppress(psycopg.Error):  # the connection may be lost, and the first error counts
                pgconn.put_copy_end(b"the client has ended the COPY")
            raise
        pgconn.put_copy_end()
        result = pgconn.get_result()
        while pgconn.get_result() is not None:
            pass
        _expect(result, ExecStatus.COMMAND_OK)


@contextmanager
def _blocking(connection: psycopg.Connection) -> Iterator[None]:
    """Let libpq wait for the server itself. psycopg's own wait costs 0.7 us a row, this one 0.05 us."""
    connection.pgconn.nonblocking = 0
    try:
        yield
    finally:
        if connection.pgconn.status == psycopg.pq.ConnStatus.OK:
            connection.pgconn.nonblocking = 1


def _cut(piece: bytes) -> Iterator[Buffer]:
    view = memoryview(piece)
    for start in range(0, len(piece), PIECE):
        yield view[start : start + PIECE]


def _expect(result: PGresult | None, status: ExecStatus) -> None:
    if result is None:
        raise psycopg.OperationalError("the server has closed the connection")
    if result.status != status:
        raise psycopg.errors.error_from_result(result)
