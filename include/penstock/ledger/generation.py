"""Generations of a topic and their positions, in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements
from penstock.model.log import Identity
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

_statements = Statements("ledger/generation")


@dataclass(frozen=True, slots=True)
class Generation:
    """One incarnation of a topic. `epoch` counts how often the same topic id was adopted."""

    pipeline_id: int
    generation_id: int
    cluster_id: str
    topic_id: str
    epoch: int

    @property
    def identity(self) -> Identity:
        """The topic."""
        return Identity(self.cluster_id, self.topic_id)


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset of a partition, the offset from which its gaps count, and the epoch of the leader of then."""

    partition: int
    position: int
    origin: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class Hours:
    """A time of whole hours."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """The position of a partition, and how many of its offsets are covered."""

    partition: int
    position: int
    covered: int


def read_newest_generation(connection: Connection, pipeline_id: int) -> Generation | None:
    """Read the generation that is loaded now; None before the first plan."""
    return _statements.fetch_one(connection, Generation, "read_newest_generation", pipeline_id=pipeline_id)


def read_newest_generation_of(connection: Connection, pipeline: str) -> Generation | None:
    """Read the generation that is loaded now, by the name of its pipeline; None before the first plan."""
    return _statements.fetch_one(connection, Generation, "read_newest_generation_of", pipeline=pipeline)


def find_generation(connection: Connection, pipeline_id: int, identity: Identity) -> Generation | None:
    """Find the newest generation of a topic id; None if the topic was never loaded."""
    return _statements.fetch_one(
        connection,
        Generation,
        "find_generation",
        pipeline_id=pipeline_id,
        cluster_id=identity.cluster_id,
        topic_id=identity.topic_id,
    )


def open_generation(connection: Connection, pipeline_id: int, identity: Identity, epoch: int) -> int:
    """Open a generation, which is loaded from now on."""
    return _statements.fetch_value(
        connection,
        int,
        "open_generation",
        pipeline_id=pipeline_id,
        cluster_id=identity.cluster_id,
        topic_id=identity.topic_id,
        epoch=epoch,
    )


def read_positions(connection: Connection, generation_id: int) -> list[Position]:
    """Read the positions of a generation, in the order of the partitions."""
    return _statements.fetch_all(connection, Position, "read_positions", generation_id=generation_id)


def summarize_generation(connection: Connection, generation_id: int) -> list[PartitionSummary]:
    """Read the position and the number of covered offsets of each partition."""
    return _statements.fetch_all(connection, PartitionSummary, "summarize_generation", generation_id=generation_id)


def open_positions(connection: Connection, generation_id: int, positions: Sequence[Position]) -> None:
    """Insert the first position of partitions."""
    rows = Jsonb([asdict(position) for position in positions])
    _statements.execute(connection, "open_positions", generation_id=generation_id, positions=rows)


def move_positions(connection: Connection, load: Load) -> set[Range]:
    """Move the positions from the start of each range of a load to its end; the ranges whose position was moved."""
    where = {"generation_id": load.generation_id, "load_id": load.load_id}
    return set(_statements.fetch_all(connection, Range, "move_positions", **where))


def see_ends(connection: Connection, generation_id: int, at: datetime | None, ends: Mapping[int, int]) -> None:
    """Record the ends of the log at a time: a partition is loaded until then when its position has passed its end."""
    rows = Jsonb([{"partition": number, "high": high} for number, high in ends.items()])
    _statements.execute(connection, "see_ends", generation_id=generation_id, at=at, ends=rows)


def advance_hours(connection: Connection, generation_id: int) -> None:
    """Move the end of the whole hours to the last full hour until which every partition is loaded."""
    _statements.execute(connection, "advance_hours", generation_id=generation_id)


def announce_hours(connection: Connection, pipeline: str, run_id: str) -> Hours | None:
    """Find the whole hours that no other run has announced, and record this run; None if there are none."""
    return _statements.fetch_one(connection, Hours, "announce_hours", pipeline=pipeline, run_id=run_id)


def list_whole_hours(connection: Connection, pipeline: str, hours: Hours, most: int) -> list[datetime]:
    """List the last whole hours of a time, in their order."""
    where = {"pipeline": pipeline, "since": hours.since, "until": hours.until, "most": most}
    return _statements.fetch_values(connection, lambda hour: hour, "list_whole_hours", **where)


def find_last_load(connection: Connection, generation_id: int, partition: int) -> int | None:
    """Find the load that moved a partition to its position."""
    where = {"generation_id": generation_id, "partition": partition}
    return next(iter(_statements.fetch_values(connection, lambda load: load, "find_last_load", **where)), None)
