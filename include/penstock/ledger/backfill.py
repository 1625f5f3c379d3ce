"""Backfills in the ledger, in the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ledger.statements import Statements
from penstock.model.load import LoadState
from penstock.model.ranges import LoadRange, Range

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/backfill")


@dataclass(frozen=True, slots=True)
class BackfillOwner:
    """The pipeline of a backfill, and the run that planned it."""

    pipeline: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Duration:
    """How long a load took for so many offsets."""

    offsets: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """The progress of a backfill; `seconds` from its start to its newest publish."""

    loads: int
    loads_done: int
    loads_stopped: int
    offsets: int
    offsets_done: int
    rows: int
    seconds: float | None

    def __str__(self) -> str:
        done = f"{self.loads_done} of {self.loads} loads, {self.offsets_done:,} of {self.offsets:,} offsets"
        if not self.seconds or not self.offsets_done:
            return done
        rate = self.offsets_done / self.seconds
        left = (self.offsets - self.offsets_done) / rate if self.loads_done + self.loads_stopped < self.loads else 0
        return f"{done}, {rate:,.0f} offsets/s" + (f", about {left:.0f} s left" if left else "")


def find_backfill_of_run(connection: Connection, pipeline_id: int, run_id: str) -> int | None:
    """Find the backfill that a run has planned before."""
    where = {"pipeline_id": pipeline_id, "run_id": run_id}
    return next(iter(_statements.fetch_values(connection, int, "find_backfill_of_run", **where)), None)


def create_backfill(
    connection: Connection,
    pipeline_id: int,
    run_id: str,
    *,
    asked: str,
    replace: bool,
    offsets_per_load: int,
    actor: str | None,
) -> int:
    """Insert a backfill; its loads are inserted by the caller."""
    return _statements.fetch_value(
        connection,
        int,
        "create_backfill",
        pipeline_id=pipeline_id,
        run_id=run_id,
        asked=asked,
        replace=replace,
        offsets_per_load=offsets_per_load,
        actor=actor,
    )


def read_backfill(connection: Connection, backfill_id: int) -> BackfillOwner | None:
    """Read the pipeline and the run of a backfill."""
    return _statements.fetch_one(connection, BackfillOwner, "read_backfill", backfill_id=backfill_id)


def read_backfill_loads(connection: Connection, backfill_id: int) -> dict[int, LoadState]:
    """Read the loads of a backfill with their states, in their order."""
    return dict(_statements.fetch_all(connection, _make_state, "read_backfill_loads", backfill_id=backfill_id))


def cancel_backfill(connection: Connection, backfill_id: int, actor: str, why: str) -> list[int]:
    """Discard the open loads of a backfill, and return their numbers."""
    where = {"backfill_id": backfill_id, "actor": actor, "why": why}
    return _statements.fetch_values(connection, int, "cancel_backfill", **where)


def read_planned(connection: Connection, pipeline_id: int, generation_id: int) -> list[LoadRange]:
    """Read the ranges of open backfills and replays."""
    where = {"pipeline_id": pipeline_id, "generation_id": generation_id}
    return _statements.fetch_all(connection, _make_load_range, "read_planned", **where)


def lock_backfill(session: Connection, backfill_id: int) -> bool:
    """Lock a backfill until the session ends; False if another session runs it."""
    return _statements.fetch_value(session, bool, "lock_backfill", backfill_id=backfill_id)


def find_first_offsets(connection: Connection, generation_id: int, at: datetime) -> dict[int, int]:
    """Find, per partition, the first range of a load with a record that is not older than a time."""
    where = {"generation_id": generation_id, "at": at}
    return dict(_statements.fetch_all(connection, _make_offset, "find_first_offsets", **where))


def read_durations(connection: Connection, pipeline_id: int) -> list[Duration]:
    """Read how long the newest loads of a pipeline took."""
    return _statements.fetch_all(connection, Duration, "read_durations", pipeline_id=pipeline_id)


def read_backfill_progress(connection: Connection, backfill_id: int) -> BackfillProgress | None:
    """Read the progress of a backfill."""
    return _statements.fetch_one(connection, BackfillProgress, "read_progress", backfill_id=backfill_id)


def _make_state(load_id: int, state: str) -> tuple[int, LoadState]:
    return load_id, LoadState(state)


def _make_offset(partition: int, from_offset: int) -> tuple[int, int]:
    return partition, from_offset


def _make_load_range(
    partition: int, from_offset: int, until_offset: int, load_id: int, backfill_id: int | None
) -> LoadRange:
    return LoadRange(Range(partition, from_offset, until_offset), load_id, backfill_id)
