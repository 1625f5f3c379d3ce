"""The work of one Spark task: read, decode, write."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.kafka.readers.contract import CheckedChunks
from penstock.records.decoder import Decoder
from penstock.records.fingerprint import LogFingerprint
from penstock.records.rust import make_encoder
from penstock.target.postgres.binary_copy import write_encoded
from penstock.target.postgres.chunks import RowsRefusedError
from penstock.waiting import Pace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.kafka.readers.contract import OpenGroup, Part
    from penstock.model.ranges import Chunk
    from penstock.model.records import Batch
    from penstock.records.decoder import Decoded
    from penstock.records.rust import Encoded, RustEncoder
    from penstock.target.assignment import Assignment
    from penstock.target.row_stream import WrittenChunk


def stage_group(assignment: Assignment, chunks: Sequence[Chunk], group: OpenGroup) -> list[WrittenChunk]:
    """Stage chunks in one transaction, for any reader.

    A record that PostgreSQL refuses ends the COPY of all chunks. A second pass, which copies piece by piece, finds the
    record: at once if the reader can open the chunks again, otherwise in the next try of the Spark task.
    """
    try:
        return _read_and_write(assignment, chunks, group, piecewise=group.is_retry and not group.can_open_again)
    except RowsRefusedError:
        if not group.can_open_again:
            raise
        return _read_and_write(assignment, chunks, group, piecewise=True)


def _read_and_write(
    assignment: Assignment, chunks: Sequence[Chunk], group: OpenGroup, *, piecewise: bool
) -> list[WrittenChunk]:
    # Only the path in Python finds the rows that PostgreSQL refuses.
    encoder = make_encoder(assignment.layout, assignment.load_id) if assignment.source.rust and not piecewise else None
    checked = CheckedChunks(assignment.source, chunks, group.find_log_starts)
    seen = {chunk.task: LogFingerprint() for chunk in chunks}
    pace = Pace(assignment.records_per_second)

    def take(read: Iterator[Part]) -> Iterator[tuple[int, Batch]]:
        for task, batch in checked.check(read):
            pace.keep(len(batch.offsets))
            yield task, batch

    def encode(encoder: RustEncoder, read: Iterator[Part]) -> Iterator[tuple[int, Encoded]]:
        for task, batch in take(read):
            encoded = encoder.encode(batch)
            seen[task].add(len(batch.offsets), encoded.log_hash)
            yield task, encoded

    def decode(decoder: Decoder, read: Iterator[Part]) -> Iterator[tuple[int, Decoded]]:
        for task, batch in take(read):
            seen[task].add_batch(batch)
            yield task, decoder.decode(batch)

    with group.open() as read, collecting_rarely():
        if encoder is not None:
            return write_encoded(assignment, chunks, list(encoder.types), checked, seen, encode(encoder, read))
        from penstock.target.postgres.copy import write_group  # ADBC imports pandas: 0.4 s that Rust does not need

        decoder = Decoder(assignment.layout, assignment.load_id)
        rows = decode(decoder, read)
        return write_group(assignment, chunks, decoder.schema, checked, seen, rows, piecewise=piecewise)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Collect garbage rarely: records hold no cycles, and a search after each 700 objects takes a sixth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
