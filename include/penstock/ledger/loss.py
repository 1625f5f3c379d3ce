"""Losses in the ledger, in the caller's transaction: offsets that the log no longer had."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from psycopg import sql

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/loss")


@dataclass(frozen=True, slots=True)
class LostRange:
    """Offsets to record as lost, and the reason."""

    range: Range
    reason: str


def move_positions_over_losses(connection: Connection, generation_id: int, ranges: Sequence[Range]) -> set[Range]:
    """Move the positions from the start of each range to its end; the ranges whose position was moved."""
    losses = Jsonb([asdict(range_) for range_ in ranges])
    where = {"generation_id": generation_id, "losses": losses}
    return set(_statements.fetch_all(connection, Range, "move_positions_over_losses", **where))


def record_lost_ranges(
    connection: Connection, pipeline_id: int, generation_id: int, lost: Sequence[LostRange], actor: str, why: str
) -> None:
    """Record losses, in their order."""
    losses = [{**asdict(each.range), "reason": each.reason, "place": place} for place, each in enumerate(lost)]
    _statements.execute(
        connection,
        "record_losses",
        pipeline_id=pipeline_id,
        generation_id=generation_id,
        losses=Jsonb(losses),
        actor=actor,
        why=why,
    )


def read_last_timestamp(
    connection: Connection, target: sql.Identifier, load_id: int, partition: int
) -> datetime | None:
    """Read the time of the last row that a load published of a partition; None if the target no longer has it."""
    where = {"load_id": load_id, "partition": partition}
    found = _statements.fetch_values(connection, lambda time: time, "read_last_timestamp", {"target": target}, **where)
    return found[0] if found else None
