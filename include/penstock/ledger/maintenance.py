"""Maintenance of a pipeline: leaves, keeping times and the moment to replace leaves, in the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from penstock.ledger.connection import Connection

    T = TypeVar("T")

_statements = Statements("ledger/maintenance")


@dataclass(frozen=True, slots=True)
class LeftOutLeaf:
    """A leaf that an earlier maintenance could not merge."""

    from_load: int
    until_load: int
    leaf: str
    reason: str


def lock_maintenance(connection: Connection, pipeline_id: int) -> bool:
    """Lock the maintenance of a pipeline until the session ends; False if another session holds the lock."""
    return _statements.fetch_value(connection, bool, "lock_maintenance", pipeline_id=pipeline_id)


def read_leaves(connection: Connection, make: Callable[..., T], pipeline_id: int, target: str) -> list[T]:
    """Read the leaves of a target in their order: schema, name, from_load, until_load, size and loads."""
    return _statements.fetch_all(connection, make, "read_leaves", pipeline_id=pipeline_id, target=target)


def find_past_kept(connection: Connection, pipeline_id: int) -> list[int]:
    """Find the loads that were rolled back and whose keeping time is over."""
    return _statements.fetch_values(connection, int, "find_past_kept", pipeline_id=pipeline_id)


def end_keeping(connection: Connection, load_id: int) -> bool:
    """Record that the rows of a rolled back load are dropped; False if they are not past their time."""
    return _statements.execute(connection, "end_keeping", load_id=load_id) == 1


def drop_uncounted(connection: Connection, pipeline_id: int, days: int) -> int:
    """Delete quarantined records that do not count, some days after their load ended."""
    return _statements.execute(connection, "drop_uncounted", pipeline_id=pipeline_id, days=days)


def empty_quarantine(connection: Connection, pipeline_id: int, days: int) -> int:
    """Empty quarantined records of loads that were published more than so many days ago, also those of redrives."""
    _statements.execute(connection, "empty_redriven", pipeline_id=pipeline_id, days=days)
    return _statements.execute(connection, "empty_quarantine", pipeline_id=pipeline_id, days=days)


def drop_old_tasks(connection: Connection, pipeline_id: int) -> int:
    """Delete the counts of attempts before the last one."""
    _statements.execute(connection, "drop_old_accounts", pipeline_id=pipeline_id)
    return _statements.execute(connection, "drop_old_tasks", pipeline_id=pipeline_id)


def drop_tasks_past_kept(connection: Connection, pipeline_id: int, days: int) -> int:
    """Delete the counts and fingerprints of the tasks of loads that ended more than so many days ago."""
    return _statements.execute(connection, "drop_tasks_past_kept", pipeline_id=pipeline_id, days=days)


def drop_check_results(connection: Connection, pipeline_id: int, days: int) -> int:
    """Delete the results of checks on ended loads that were checked more than so many days ago."""
    return _statements.execute(connection, "drop_check_results", pipeline_id=pipeline_id, days=days)


def find_stray_merges(connection: Connection, pipeline_id: int) -> list[str]:
    """Find the tables of interrupted merges of a pipeline."""
    return _statements.fetch_values(connection, str, "find_stray_merges", pipeline_id=pipeline_id)


def find_stale_tables(connection: Connection) -> list[str]:
    """Find the tables of attempts that no load needs any more."""
    return _statements.fetch_values(connection, str, "find_stale_tables")


def read_left_out(connection: Connection, pipeline_id: int) -> list[LeftOutLeaf]:
    """Read the leaves that an earlier maintenance could not merge."""
    return _statements.fetch_all(connection, LeftOutLeaf, "read_left_out", pipeline_id=pipeline_id)


def record_left_out(connection: Connection, pipeline_id: int, **left_out: object) -> None:
    """Record that a leaf cannot be merged: `leaf`, `from_load`, `until_load` and `reason`."""
    _statements.execute(connection, "record_left_out", pipeline_id=pipeline_id, **left_out)


def forget_left_out(connection: Connection, pipeline_id: int, from_load: int) -> None:
    """Delete the record that a leaf cannot be merged."""
    _statements.execute(connection, "forget_left_out", pipeline_id=pipeline_id, from_load=from_load)
