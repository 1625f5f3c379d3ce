"""What runs inside a Spark task: read, decode, write."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.carrying import CarriedError
from penstock.decoding import Decoder
from penstock.errors import PenstockError
from penstock.reading import native
from penstock.writing import write_chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.assignment import Assignment
    from penstock.decoding import Decoded
    from penstock.ranges import Chunk
    from penstock.reading.contract import Batch, End
    from penstock.writing import Written

RESULT = "task int, rows long, quarantined long, holes long, won boolean"


def stage_chunk(assignment: Assignment, chunk: Chunk, read: Iterator[Batch | End]) -> Written:
    """Stage one chunk, whoever reads it."""
    decoder = Decoder(assignment.layout, assignment.load_id)
    checked = native.open_chunk(assignment.source, chunk)
    decoded: Iterator[Decoded] = map(decoder.decode, checked.check(read))
    return write_chunk(assignment, chunk, decoder.schema, checked, decoded)


def stage_natively(assignment: Assignment, chunk: Chunk) -> Written:
    """Stage one chunk, read in the task itself."""
    with closing(native.read_chunk(assignment.source, chunk)) as read:
        return stage_chunk(assignment, chunk, read)


def make_native_task(
    assignment: Assignment, chunks: Sequence[Chunk]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that Spark runs on the executors; the rows that come in are numbers of chunks."""

    def stage(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                try:
                    yield make_result(stage_natively(assignment, chunks[number]))
                except PenstockError as error:
                    raise CarriedError(error) from None

    return stage


def make_result(written: Written) -> pa.RecordBatch:
    """One row for the driver."""
    return pa.RecordBatch.from_pydict(
        {
            "task": pa.array([written.task], pa.int32()),
            "rows": pa.array([written.rows], pa.int64()),
            "quarantined": pa.array([written.quarantined], pa.int64()),
            "holes": pa.array([written.holes], pa.int64()),
            "won": pa.array([written.won]),
        }
    )
