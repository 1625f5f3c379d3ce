"""Where a range differs from the log: it is read and decoded once more, and compared row by row inside the database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from psycopg import sql

from penstock.assignment import make_assignment
from penstock.decoding import Decoder
from penstock.ledger import open_ledger
from penstock.proof.adding_up import run
from penstock.proof.rows import hash_row
from penstock.ranges import cut_chunks
from penstock.reading import native
from penstock.statements import read_statements
from penstock.target import target_identifier
from penstock.writing import open_connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.assignment import Assignment
    from penstock.ledger import Load
    from penstock.ranges import Chunk, Range
    from penstock.settings import Settings

OFFSETS_AT_ONCE = 250_000
# A range that was loaded from something else altogether differs everywhere: some places are enough to look.
MOST_PLACES = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """An offset at which the table does not hold what the log gives; of the quarantine, likewise."""

    offset: int
    kind: Literal["missing", "too many", "changed"]
    quarantined: bool = False

    def __str__(self) -> str:
        return f"{self.offset} {self.kind}{' in the quarantine' if self.quarantined else ''}"


def locate_differences(
    settings: Settings, load: Load, range_: Range, *, compacted: bool
) -> tuple[list[Difference], int]:
    """Compare a range with the log; the first differences come back, and how many offsets differ in all.

    That a compacted log has fewer records than were loaded is no difference.
    """
    differences: list[Difference] = []
    count = 0
    assignment = make_assignment(settings, load, load.attempt)
    for chunk in cut_chunks([range_], OFFSETS_AT_ONCE):
        found, of_all = _compare(settings, load, assignment, chunk, compacted=compacted)
        differences += found
        count += of_all
    return sorted(differences, key=lambda difference: difference.offset)[:MOST_PLACES], count


def _compare(
    settings: Settings, load: Load, assignment: Assignment, chunk: Chunk, *, compacted: bool
) -> tuple[list[Difference], int]:
    decoder = Decoder(assignment.layout, load.load_id)
    poison: set[int] = set()

    def decode() -> Iterator[pa.RecordBatch]:
        with closing(native.read_chunk(assignment.source, chunk)) as read:
            for decoded in map(decoder.decode, native.open_chunk(assignment.source, chunk).check(read)):
                poison.update(record.offset for record in decoded.poison)
                if len(decoded.rows):
                    yield decoded.rows

    again = pa.RecordBatchReader.from_batches(decoder.schema, decode())
    rows = _compare_rows(load, assignment, chunk.range, again, compacted=compacted)
    found = [Difference(offset, kind) for offset, kind, _ in rows]
    quarantine = _compare_quarantine(settings.db, load, chunk.range, poison, compacted=compacted)
    return found + quarantine, (rows[0][2] if rows else 0) + len(quarantine)


def _compare_rows(
    load: Load, assignment: Assignment, range_: Range, again: pa.RecordBatchReader, *, compacted: bool
) -> list[Any]:
    names = {"target": target_identifier(load.declaration.target), "row_hash": hash_row(load.declaration)}
    create, compare = (
        sql.SQL(read_statements("proof")[name].decode()).format(**names).as_string(None)
        for name in ("create_again", "compare_again")
    )
    with closing(open_connection(assignment)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(create)
        cursor.adbc_ingest("again", again, mode="append", temporary=True)
        cursor.execute(compare, (load.load_id, range_.partition, range_.from_offset, range_.until_offset, compacted))
        return list(cursor.fetchall())


def _compare_quarantine(db: str, load: Load, range_: Range, poison: set[int], *, compacted: bool) -> list[Difference]:
    with open_ledger(db) as connection:
        rows = run(connection, "read_quarantined_offsets", load_id=load.load_id, **asdict(range_))
        held = {row["offset"] for row in rows}
    return [
        *(Difference(offset, "missing", quarantined=True) for offset in poison - held),
        *(Difference(offset, "too many", quarantined=True) for offset in held - poison if not compacted),
    ]
