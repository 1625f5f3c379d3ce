"""What runs inside a Spark task: read, decode, write."""

from __future__ import annotations

import gc
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from penstock.carrying import CarriedError
from penstock.decoding import Decoder
from penstock.errors import PenstockError
from penstock.proof.records import LogFingerprint
from penstock.reading import native
from penstock.writing import write_chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.assignment import Assignment
    from penstock.decoding import Decoded
    from penstock.ranges import Chunk
    from penstock.reading.contract import Batch, End
    from penstock.writing import Written


def stage_chunk(assignment: Assignment, chunk: Chunk, read: Iterator[Batch | End]) -> Written:
    """Stage one chunk, whoever reads it."""
    decoder = Decoder(assignment.layout, assignment.load_id)
    checked = native.open_chunk(assignment.source, chunk)
    seen = LogFingerprint()
    decoded: Iterator[Decoded] = map(decoder.decode, seen.watch(checked.check(read)))
    with _collecting_seldom():
        return write_chunk(assignment, chunk, decoder.schema, checked, seen, decoded)


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Records come by the thousand and hold no cycles: looking for some after each 700 takes a sixth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def stage_natively(assignment: Assignment, chunk: Chunk) -> Written:
    """Stage one chunk, read in the task itself."""
    with closing(native.read_chunk(assignment.source, chunk)) as read:
        return stage_chunk(assignment, chunk, read)


def make_native_task(
    assignment: Assignment, chunks: Sequence[Chunk]
) -> Callable[[Iterator[int]], Iterator[tuple[int, bool]]]:
    """Make the function that Spark runs on the executors: numbers of chunks come in, who wrote them goes out."""

    def stage(numbers: Iterator[int]) -> Iterator[tuple[int, bool]]:
        for number in numbers:
            try:
                yield number, stage_natively(assignment, chunks[number]).won
            except PenstockError as error:
                raise CarriedError(error) from None  # as in reading/spark.py

    return stage
