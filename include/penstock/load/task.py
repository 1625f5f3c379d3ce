"""What runs inside a Spark task: read, decode, write."""

from __future__ import annotations

import gc
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.kafka.readers.contract import CheckedChunks
from penstock.records.decoder import Decoder
from penstock.records.fingerprint import LogFingerprint
from penstock.spark.error_transport import CarriedError
from penstock.target.postgres.copy import RowsRefusedError, write_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.kafka.readers.contract import FindLogStarts, Part
    from penstock.model.ranges import Chunk
    from penstock.records.decoder import Decoded
    from penstock.target.assignment import Assignment
    from penstock.target.row_flow import Written


def stage_group(
    assignment: Assignment,
    chunks: Sequence[Chunk],
    read: Iterator[Part],
    find_log_starts: FindLogStarts | None,
    *,
    piecewise: bool = False,
) -> list[Written]:
    """Stage chunks in one transaction, for any reader."""
    decoder = Decoder(assignment.layout, assignment.load_id)
    checked = CheckedChunks(assignment.source, chunks, find_log_starts)
    seen = {chunk.task: LogFingerprint() for chunk in chunks}

    def decode() -> Iterator[tuple[int, Decoded]]:
        for task, batch in checked.check(read):
            seen[task].see(batch)
            yield task, decoder.decode(batch)

    with _collecting_seldom():
        return write_group(assignment, chunks, decoder.schema, checked, seen, decode(), piecewise=piecewise)


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Records come by the thousand and hold no cycles: looking for some after each 700 takes a sixth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def stage_natively(assignment: Assignment, chunks: Sequence[Chunk]) -> list[Written]:
    """Stage chunks, read in the task itself; a record that PostgreSQL refuses is searched for by a second pass."""
    try:
        return _read_and_stage(assignment, chunks, piecewise=False)
    except RowsRefusedError:
        return _read_and_stage(assignment, chunks, piecewise=True)


def _read_and_stage(assignment: Assignment, chunks: Sequence[Chunk], *, piecewise: bool) -> list[Written]:
    from penstock.kafka.readers import native  # late: the executors of the Spark reader may lack its Kafka client

    source = assignment.source
    with closing(native.read_chunks(source, chunks)) as read:
        return stage_group(
            assignment,
            chunks,
            read,
            lambda partitions: native.find_log_starts(source, partitions),
            piecewise=piecewise,
        )


def make_native_task(
    assignment: Assignment, groups: Sequence[Sequence[Chunk]]
) -> Callable[[Iterator[int]], Iterator[tuple[int, bool]]]:
    """Make the function that Spark runs on the executors: numbers of groups come in, the chunks' outcomes go out."""

    def stage(numbers: Iterator[int]) -> Iterator[tuple[int, bool]]:
        for number in numbers:
            try:
                written = stage_natively(assignment, groups[number])
            except PenstockError as error:
                raise CarriedError(error) from None  # as in reading/spark.py
            yield from ((each.task, each.won) for each in written)

    return stage
