"""Lists of loads, and one load in full, for people. It reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/load_list")


@dataclass(frozen=True, slots=True)
class ListedLoad:
    """A load with the times of its steps; `who` decided on it last, or requested it."""

    load: int
    kind: str
    state: str
    planned_at: datetime
    staging_at: datetime | None
    staged_at: datetime | None
    validated_at: datetime | None
    held_at: datetime | None
    published_at: datetime | None
    ended_at: datetime | None
    offsets: int
    partitions: int
    rows: int | None
    quarantined: int | None
    holes: int | None
    filtered: int | None
    cause: str | None
    run_id: str
    application_id: str | None
    attempts: int
    backfill: int | None
    superseded_by: int | None
    kept_until: datetime | None
    who: str | None
    now: datetime


def list_loads(
    connection: Connection, pipeline_id: int, kind: str | None, state: str | None, *, most: int, skip: int
) -> list[ListedLoad]:
    """Read loads of a kind and in a state, or all, the newest first."""
    where = {"pipeline_id": pipeline_id, "kind": kind, "state": state, "load_id": None}
    return _statements.fetch_all(connection, ListedLoad, "list_loads", **where, most=most, skip=skip)


def count_loads(connection: Connection, pipeline_id: int, kind: str | None, state: str | None) -> int:
    """Count the loads of a kind and in a state, or all."""
    where = {"pipeline_id": pipeline_id, "kind": kind, "state": state}
    return _statements.fetch_value(connection, int, "count_loads", **where)


def find_load(connection: Connection, pipeline_id: int, load_id: int) -> ListedLoad | None:
    """Find a load of a pipeline; None if it has no such load."""
    where = {"pipeline_id": pipeline_id, "kind": None, "state": None, "load_id": load_id, "most": 1, "skip": 0}
    return _statements.fetch_one(connection, ListedLoad, "list_loads", **where)


def read_ranges(connection: Connection, load_id: int, most: int) -> list[dict[str, Any]]:
    """Read the first ranges of a load with their counts."""
    return _statements.fetch_all(connection, dict, "read_ranges", load_id=load_id, most=most)


def read_progress(connection: Connection, load_id: int, most: int) -> list[dict[str, Any]]:
    """Read the progress of staging a load, the partitions with the most left first."""
    return _statements.fetch_all(connection, dict, "read_progress", load_id=load_id, most=most)


def read_checks(connection: Connection, load_id: int, most: int) -> list[dict[str, Any]]:
    """Read the results of the checks on a load, the failed ones first."""
    return _statements.fetch_all(connection, dict, "read_checks", load_id=load_id, most=most)


def read_load_events(connection: Connection, load_id: int, most: int) -> list[dict[str, Any]]:
    """Read the events of a load, the newest first."""
    return _statements.fetch_all(connection, dict, "read_load_events", load_id=load_id, most=most)


def compare_declarations(connection: Connection, pipeline_id: int, load_id: int) -> list[dict[str, Any]]:
    """Compare the declaration of a load with that of the load before."""
    where = {"pipeline_id": pipeline_id, "load_id": load_id}
    return _statements.fetch_all(connection, dict, "compare_declarations", **where)
