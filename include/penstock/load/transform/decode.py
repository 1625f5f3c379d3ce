"""The first half of a load with a transform, on the executors: read and decode chunks, and record what they hold.

Spark may compute a partition again, or twice at the same time, or not at all. So a group is recorded in one short
transaction after its last record; every other reading must have found the same records.
"""

from __future__ import annotations

import json
import pickle
from base64 import b64encode
from contextlib import closing, contextmanager
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from adbc_driver_manager import Error as AdbcError

from penstock import advice
from penstock.errors import ReadError
from penstock.kafka.readers.contract import CheckedChunks
from penstock.ledger.stage_task import compose_find
from penstock.ledger.transform import compose
from penstock.load.task import collecting_rarely
from penstock.load.transform.account import DecodedPlaces
from penstock.records.decoder import Decoder
from penstock.records.fingerprint import LogFingerprint
from penstock.records.rejection import Rejection, reject_record
from penstock.records.rust import make_decoder
from penstock.records.spark_columns import make_frame
from penstock.rust_package import find_package
from penstock.target.postgres import binary_copy
from penstock.target.postgres.chunks import find_done, make_copy_error, refuse_old_attempt, settle
from penstock.target.row_stream import RowStream, WrittenChunk
from penstock.waiting import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from penstock.kafka.readers.contract import OpenGroup, Part
    from penstock.model.ranges import Chunk
    from penstock.records.decoder import Decoded
    from penstock.records.rejection import RejectedRecord
    from penstock.target.assignment import Assignment
    from penstock.target.postgres.chunks import Path

# More bytes of rejected records wait on disk until their group ends.
IN_MEMORY = 8 * 1024 * 1024
Quarantine: TypeAlias = "Callable[[Sequence[RejectedRecord]], None]"
# Refused rows by task and offset: reason and detail.
Wanted = dict[int, dict[int, tuple[str, str]]]


def decode_group(assignment: Assignment, chunks: Sequence[Chunk], group: OpenGroup) -> Iterator[pa.RecordBatch]:
    """Yield the decoded rows of a group as batches of a DataFrame, and record the group after its last record."""
    reading = _Reading(assignment, chunks, group)
    with collecting_rarely():
        yield from reading.rows()
    reading.record()


def record_group(assignment: Assignment, chunks: Sequence[Chunk], group: OpenGroup) -> list[WrittenChunk]:
    """Read and record a group that the plan of Spark has left out, or has not read to its end."""
    reading = _Reading(assignment, chunks, group)
    for _ in reading.rows():
        pass
    return reading.record()


class _Reading:
    """One reading of a group."""

    def __init__(self, assignment: Assignment, chunks: Sequence[Chunk], group: OpenGroup) -> None:
        self.assignment, self.chunks, self.group = assignment, chunks, group
        self.checked = CheckedChunks(assignment.source, chunks, group.find_log_starts)
        self.seen = {chunk.task: LogFingerprint() for chunk in chunks}
        self.places = {chunk.task: DecodedPlaces() for chunk in chunks}
        self.rejected = _Waiting()
        rust = make_decoder(assignment.layout, assignment.load_id) if assignment.source.rust else None
        self.decoder = rust or Decoder(assignment.layout, assignment.load_id)
        self.path: Path = "rust" if rust else "python"
        self.stream: RowStream[Decoded] = RowStream(assignment, iter(()))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the decoded rows."""
        convert = make_frame(self.assignment.layout)
        with self.group.open() as read:
            self.stream.decoded = self._decode(read)
            while not self.stream.ended:
                for task, part in self.stream.parts():
                    self.places[task].add(part.rows)
                    yield convert(part.rows)
                self.rejected.add(self.stream.take_quarantine())

    def _decode(self, read: Iterator[Part]) -> Iterator[tuple[int, Decoded]]:
        pace = Pace(self.assignment.records_per_second)
        for task, batch in self.checked.check(read):
            pace.keep(len(batch.offsets))
            if isinstance(self.decoder, Decoder):
                self.seen[task].add_batch(batch)
                yield task, self.decoder.decode(batch)
            else:
                decoded, log_hash = self.decoder.decode(batch)
                self.seen[task].add(len(batch.offsets), log_hash)
                yield task, decoded

    def record(self) -> list[WrittenChunk]:
        """Record the group, or compare it with the reading that was recorded before."""
        written = [self.stream.describe_chunk(chunk.task, self.checked.chunks[chunk.task]) for chunk in self.chunks]
        try:
            with _open(self.assignment, rust=self.path == "rust") as (cursor, quarantine):
                cursor.execute("begin")
                if self._write(cursor, quarantine, written):
                    cursor.execute("commit")
                    return written
                cursor.execute("rollback")
                self._compare(written, find_done(cursor, self.assignment, self.chunks) or [])
                return written
        except (AdbcError, psycopg.Error) as error:
            # The text of `error` may contain the password.
            raise make_copy_error(error, self.assignment, self.chunks) from None

    def _write(self, cursor: Any, quarantine: Quarantine, written: Sequence[WrittenChunk]) -> bool:  # noqa: ANN401
        """Record the group; false if another reading did so before. Its row of the ledger comes first, as the lock."""
        assignment = self.assignment
        if find_done(cursor, assignment, self.chunks) is not None:
            return False
        if not settle(cursor, assignment, self.chunks, written, self.seen, self.path):
            return False
        places = [
            {
                "task": chunk.task,
                "places": b64encode(self.places[chunk.task].write_places(chunk.range)).decode(),
                "hashes": b64encode(self.places[chunk.task].write_hashes()).decode(),
            }
            for chunk in self.chunks
        ]
        cursor.execute(compose("record_decoded"), (assignment.load_id, assignment.attempt, json.dumps(places)))
        for rejected in self.rejected.take():
            quarantine(rejected)
        return True

    def _compare(self, written: Sequence[WrittenChunk], before: Sequence[WrittenChunk]) -> None:
        for chunk, mine, other in zip(self.chunks, written, before, strict=True):
            found = (mine.rows, mine.quarantined, mine.holes, self.seen[chunk.task].hash)
            if found != (other.rows, other.quarantined, other.holes, other.log_hash):
                raise ReadError(
                    f"topic {self.assignment.source.topic}: the log gave other records when it was read again for the "
                    "transform.",
                    pipeline=self.assignment.pipeline,
                    load=self.assignment.load_id,
                    ranges=[chunk.range],
                    next_step=advice.RETRY_STAGE_WITH_NEW_ATTEMPT,
                )


@contextmanager
def _open(assignment: Assignment, *, rust: bool) -> Iterator[tuple[Any, Quarantine]]:
    """Open a session: its cursor, and the way to write rejected records."""
    if rust:
        with binary_copy.open_session(assignment) as connection:
            yield psycopg.RawCursor(connection), partial(binary_copy.write_rejected, connection, assignment)
        return
    from penstock.target.postgres import copy  # ADBC imports pandas: 0.4 s that Rust does not need

    with closing(copy.open_connection(assignment)) as connection, closing(connection.cursor()) as cursor:
        yield cursor, partial(copy.write_rejected, cursor, assignment)


class _Waiting:
    """Rejected records that wait until their group ends."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - it closes with its reading
        self._lists = 0

    def add(self, rejected: list[RejectedRecord]) -> None:
        """Keep some records."""
        if rejected:
            pickle.dump(rejected, self._file)
            self._lists += 1

    def take(self) -> Iterator[list[RejectedRecord]]:
        """Give the records back, in the lists in which they came."""
        self._file.seek(0)
        for _ in range(self._lists):
            yield pickle.load(self._file)  # noqa: S301 - this process has written it


def quarantine_refused(
    assignment: Assignment, wanted: Wanted, chunks: Sequence[Chunk], group: OpenGroup
) -> list[WrittenChunk]:
    """Read a group again for the records whose rows the target refused, and quarantine these records."""
    checked = CheckedChunks(assignment.source, chunks, group.find_log_starts)
    with group.open() as read:
        found = [record for task, batch in checked.check(read) for record in _pick(batch, wanted.get(task, {}))]
    places = [{"partition": record.partition, "offset": record.offset} for record in found]
    try:
        with _open(assignment, rust=assignment.source.rust and find_package() is not None) as (cursor, quarantine):
            cursor.execute("begin")
            cursor.execute(compose_find(), (assignment.load_id, assignment.attempt, -1, -1))
            refuse_old_attempt(assignment, current=bool(cursor.fetchall()[0][0]))
            values = (assignment.load_id, assignment.attempt, json.dumps(places))
            cursor.execute(compose("forget_refused"), values)
            quarantine(found)
            cursor.execute("commit")
    except (AdbcError, psycopg.Error) as error:
        raise make_copy_error(error, assignment, chunks) from None  # its text may quote values
    # The reading has checked these holes itself.
    return [WrittenChunk(chunk.task, 0, 0, 0, won=True) for chunk in chunks]


def _pick(batch: Any, wanted: Mapping[int, tuple[Any, str]]) -> Iterator[RejectedRecord]:  # noqa: ANN401
    for index, offset in enumerate(batch.offsets.tolist() if wanted else ()):
        if offset in wanted:
            yield reject_record(batch, index, Rejection(*wanted[offset]))
