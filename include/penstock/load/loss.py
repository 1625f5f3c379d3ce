"""Losses: offsets that the log no longer has. They are told with the time they are from, and given up by name only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from psycopg import sql

from penstock import advice
from penstock.errors import FencedError
from penstock.kafka.first_records import read_first_timestamps
from penstock.ledger.statements import Room, read_statements
from penstock.target.postgres.table import read_columns, target_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.plan import Fault
    from penstock.model.ranges import Range

query = Room("ledger/loss").run


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
    """Write losses down, and move the positions behind them, each from where it is known to stand."""
    for loss in losses:
        offsets: dict[str, object] = {
            "generation_id": generation_id,
            "partition": loss.range.partition,
            "from_offset": loss.range.from_offset,
            "until_offset": loss.range.until_offset,
        }
        if query(connection, "pass_over_loss", **offsets).rowcount != 1:
            raise FencedError(
                "the position moved while a loss was being recorded; nothing is recorded.",
                ranges=[loss.range],
                next_step=advice.SEE_STATUS_THEN_RETRY,
            )
        query(
            connection, "record_loss", pipeline_id=pipeline_id, reason=str(loss), actor=actor, why=why, **offsets
        )  # fmt: skip


def _read_last_published(
    connection: Connection, pipeline: Pipeline, generation_id: int, partition: int
) -> datetime | None:
    """The time of the last record before a position, if a load has brought it and the table still has it."""
    row = query(connection, "find_last_load", generation_id=generation_id, partition=partition).fetchone()
    if row is None or row["load_id"] is None or "_timestamp" not in read_columns(connection, pipeline.target):
        return None
    named = sql.SQL(read_statements("ledger/loss")["read_last_timestamp"].decode())
    found = connection.execute(
        named.format(target=target_identifier(pipeline.target)), {"load_id": row["load_id"], "partition": partition}
    ).fetchone()
    return found[0] if found else None


def _date(timestamps: Mapping[int, int], fault: Fault) -> datetime | None:
    milliseconds = timestamps.get(fault.partition)
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)
