"""The earlier loads that a check compares a load with, in the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.durations import Window
    from penstock.ledger.connection import Connection

_statements = Statements("ledger/history")


@dataclass(frozen=True, slots=True)
class WindowStart:
    """The first load of a window; None if the window is empty."""

    first_load: int | None


@dataclass(frozen=True, slots=True)
class ChunkReadTwice:
    """A chunk that both readers read; the counts and fingerprints are those of its records."""

    partition: int
    from_offset: int
    until_offset: int
    records: int
    hash: int
    again_records: int
    again_hash: int

    @property
    def range(self) -> Range:
        """The offsets of the chunk."""
        return Range(self.partition, self.from_offset, self.until_offset)


def find_first_load(connection: Connection, load_id: int) -> int:
    """Find the first load of the generation of a load."""
    return _statements.fetch_value(connection, int, "find_first_load", load_id=load_id)


def find_window_start(connection: Connection, load_id: int, window: Window, *, same_generation: bool) -> int | None:
    """Find the first load of a window before a load: 0 if no load is before it, None if the window has no load."""
    found = _statements.fetch_one(
        connection,
        WindowStart,
        "find_window_start",
        load_id=load_id,
        time=window.time,
        loads=window.loads,
        same_generation=same_generation,
    )
    return None if found is None else found.first_load


def read_usual_volumes(connection: Connection, load_id: int, weeks: int) -> list[int]:
    """Read the rows of the live loads that were planned at the same hour of past weeks, and were never held."""
    return _statements.fetch_values(connection, int, "read_usual_volumes", load_id=load_id, weeks=weeks)


def find_added_partitions(connection: Connection, generation_id: int) -> list[int]:
    """Find the partitions that were added to a topic after its first load was planned."""
    return _statements.fetch_values(connection, int, "find_added_partitions", generation_id=generation_id)


def record_second_reading(
    connection: Connection, load_id: int, attempt: int, chunks: Sequence[Mapping[str, int]]
) -> None:
    """Record the second reading of chunks: `task`, `records` and `log_hash` of each."""
    _statements.execute(
        connection, "record_second_reading", load_id=load_id, attempt=attempt, chunks=Jsonb(list(chunks))
    )


def read_chunks_read_twice(connection: Connection, load_id: int, attempt: int) -> list[ChunkReadTwice]:
    """Read the chunks of an attempt that were read a second time."""
    return _statements.fetch_all(connection, ChunkReadTwice, "read_chunks_read_twice", load_id=load_id, attempt=attempt)
