"""The panels of the page over the ledger: quarantine, events, losses, holds and backfills. It reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/panel")


@dataclass(frozen=True, slots=True)
class ListedRecord:
    """A quarantined record of a published load. The page shows no part of the key, only a hash of it."""

    load: int
    partition: int
    offset: int
    timestamp: datetime | None
    reason: str
    rule: str | None
    detail: str
    first_partition: int | None
    first_offset: int | None
    dropped_at: datetime | None
    key: bytes | None


@dataclass(frozen=True, slots=True)
class ListedBackfill:
    """A backfill with the sums of its loads; `seconds` from its start to its newest publish."""

    backfill: int
    asked: str
    replace: bool
    actor: str
    planned_at: datetime
    run_id: str
    loads: int
    loads_done: int
    loads_stopped: int
    loads_open: int
    offsets: int
    offsets_done: int
    rows: int
    seconds: float | None


def group_quarantined(connection: Connection, pipeline_id: int) -> list[dict[str, Any]]:
    """Count the quarantined records of published loads by reason and rule."""
    return _statements.fetch_all(connection, dict, "group_quarantined", pipeline_id=pipeline_id)


def list_quarantined(
    connection: Connection, pipeline_id: int, reason: str | None, rule: str | None, *, most: int, skip: int
) -> list[ListedRecord]:
    """Read quarantined records of published loads, the newest load first."""
    where = {"pipeline_id": pipeline_id, "reason": reason, "rule": rule, "most": most, "skip": skip}
    return _statements.fetch_all(connection, ListedRecord, "list_quarantined", **where)


def count_quarantined(connection: Connection, pipeline_id: int, reason: str | None, rule: str | None) -> int:
    """Count these records."""
    where = {"pipeline_id": pipeline_id, "reason": reason, "rule": rule}
    return _statements.fetch_value(connection, int, "count_quarantined", **where)


def list_events(connection: Connection, pipeline_id: int, *, most: int, skip: int) -> list[dict[str, Any]]:
    """Read the events of a pipeline, the newest first."""
    where = {"pipeline_id": pipeline_id, "most": most, "skip": skip}
    return _statements.fetch_all(connection, dict, "list_events", **where)


def count_events(connection: Connection, pipeline_id: int) -> int:
    """Count the events of a pipeline."""
    return _statements.fetch_value(connection, int, "count_events", pipeline_id=pipeline_id)


def list_losses(connection: Connection, pipeline_id: int, most: int) -> list[dict[str, Any]]:
    """Read the losses of a pipeline, the newest first."""
    return _statements.fetch_all(connection, dict, "list_losses", pipeline_id=pipeline_id, most=most)


def list_holds(connection: Connection, pipeline_id: int, most: int) -> list[dict[str, Any]]:
    """Read the holds of a pipeline, the newest first."""
    return _statements.fetch_all(connection, dict, "list_holds", pipeline_id=pipeline_id, most=most)


def list_backfills(connection: Connection, pipeline_id: int) -> list[ListedBackfill]:
    """Read the backfills of a pipeline that have not ended, and the last ten."""
    return _statements.fetch_all(connection, ListedBackfill, "list_backfills", pipeline_id=pipeline_id)
