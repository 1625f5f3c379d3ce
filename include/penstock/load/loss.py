"""Losses: offsets that the log no longer has. They are told with the time they are from, and given up by name only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import FencedError
from penstock.kafka.first_records import read_first_timestamps
from penstock.ledger.generation import find_last_load
from penstock.ledger.loss import LostRange, move_positions_over_losses, read_last_timestamp, record_lost_ranges
from penstock.target.postgres.table import read_columns, target_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.plan import Fault
    from penstock.model.ranges import Range


@dataclass(frozen=True, slots=True)
class Loss:
    """Lost offsets, between the last record that was published and the first that is left, where these are known."""

    fault: Fault
    after: datetime | None
    before: datetime | None

    @property
    def range(self) -> Range:
        """The offsets."""
        return self.fault.lost

    def __str__(self) -> str:
        known = [
            f"{word} {moment.isoformat(timespec='milliseconds')} ({what})"
            for word, moment, what in (
                ("after", self.after, "the last record published"),
                ("before", self.before, "the first record left"),
            )
            if moment
        ]
        return f"{self.fault}{'; they are from ' * bool(known)}{' and '.join(known)}"


def read_left(kafka: Mapping[str, str], pipeline: Pipeline, faults: Sequence[Fault]) -> dict[int, int]:
    """Ask when the first records were written (ms) that are left behind a log start that passed the position."""
    starts = {fault.partition: fault.lost.until_offset for fault in faults if fault.kind == "log_start_passed"}
    return read_first_timestamps(kafka, pipeline.topic, starts, pipeline.isolation)


def date_losses(
    connection: Connection,
    pipeline: Pipeline,
    generation_id: int,
    faults: Sequence[Fault],
    left: Mapping[int, int],
) -> list[Loss]:
    """Find out from when the records were that a log start has passed; `left` is what `read_left` found."""
    return [
        Loss(fault, _read_last_published(connection, pipeline, generation_id, fault.partition), _date(left, fault))
        for fault in faults
        if fault.kind == "log_start_passed"
    ]


def record_losses(
    connection: Connection, pipeline_id: int, generation_id: int, losses: Sequence[Loss], actor: str, why: str
) -> None:
    """Move the positions from the start of each loss to its end, and record the losses."""
    moved = move_positions_over_losses(connection, generation_id, [loss.range for loss in losses])
    for loss in losses:
        if loss.range not in moved:
            raise FencedError(
                "the position moved while a loss was being recorded; nothing is recorded.",
                ranges=[loss.range],
                next_step=advice.SEE_STATUS_THEN_RETRY,
            )
    lost = [LostRange(loss.range, str(loss)) for loss in losses]
    record_lost_ranges(connection, pipeline_id, generation_id, lost, actor, why)


def _read_last_published(
    connection: Connection, pipeline: Pipeline, generation_id: int, partition: int
) -> datetime | None:
    """The time of the last record before a position, if a load has brought it and the table still has it."""
    load_id = find_last_load(connection, generation_id, partition)
    if load_id is None or "_timestamp" not in read_columns(connection, pipeline.target):
        return None
    return read_last_timestamp(connection, target_identifier(pipeline.target), load_id, partition)


def _date(timestamps: Mapping[int, int], fault: Fault) -> datetime | None:
    milliseconds = timestamps.get(fault.partition)
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
