"""Which offsets of the published ranges are holes, and which of them nobody has named yet: asked of the database."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from psycopg import sql
from psycopg.rows import dict_row

from penstock.holes.kinds import Hole
from penstock.ledger.statements import Room, read_statements
from penstock.target.postgres.table import target_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.declaration.pipeline import Target
    from penstock.ledger.connection import Connection

room = Room("ledger/hole")
# So many offsets are looked through at once, and are named in one go: half as many holes at most are in memory.
WINDOW = 250_000


@dataclass(frozen=True, slots=True)
class Generation:
    """The topic that a pipeline is loaded from."""

    pipeline_id: int
    generation_id: int
    cluster_id: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets that a load covers, and whose holes are to be named."""

    load_id: int
    partition: int
    from_offset: int
    until_offset: int


def find_generation(connection: Connection, pipeline: str) -> Generation | None:
    """Find the topic that is loaded; None before the first plan."""
    row = room.run(connection, "find_newest_generation", pipeline=pipeline).fetchone()
    return Generation(**row) if row else None


def find_unnamed(connection: Connection, generation: Generation) -> list[Stretch]:
    """Find what is covered and has holes that are not named."""
    return _find(connection, "find_unnamed", generation)


def find_unexplained(connection: Connection, generation: Generation) -> list[Stretch]:
    """Find what was named, and has holes that nothing explains."""
    return _find(connection, "find_unexplained", generation)


def _find(connection: Connection, statement: str, generation: Generation) -> list[Stretch]:
    rows = room.run(
        connection, statement, pipeline_id=generation.pipeline_id, generation_id=generation.generation_id
    )  # fmt: skip
    return [Stretch(**row) for row in rows]


def cut_stretch(stretch: Stretch) -> Iterator[Stretch]:
    """Cut a stretch into windows."""
    for start in range(stretch.from_offset, stretch.until_offset, WINDOW):
        yield replace(stretch, from_offset=start, until_offset=min(start + WINDOW, stretch.until_offset))


def find_holes(connection: Connection, target: Target, window: Stretch) -> list[Hole]:
    """Find the holes of a window, each with its neighbours as one."""
    named = sql.SQL(read_statements(room.name)["find_holes"].decode()).format(target=target_identifier(target))
    found = connection.cursor(row_factory=dict_row).execute(named, asdict(window))
    return [Hole(**row) for row in found]
