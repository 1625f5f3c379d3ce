"""What runs inside a Spark task: read, decode, write."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock.decoding import Decoder
from penstock.reading import native
from penstock.writing import Written, write_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.assignment import Assignment
    from penstock.decoding import Decoded
    from penstock.ranges import Chunk
    from penstock.reading.contract import Batch, End


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
