"""The ledger's side of lineage: the times of a published load, and the outcome of its checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.declaration.parts import Severity
    from penstock.ledger.connection import Connection

_statements = Statements("ledger/lineage")


@dataclass(frozen=True, slots=True)
class Times:
    """When a load was planned and published."""

    planned_at: datetime
    published_at: datetime


@dataclass(frozen=True, slots=True)
class Move:
    """A rollback of a load, or its undo: the event of the ledger."""

    event_id: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one expectation on a load, over all its partitions."""

    expectation: str
    column: str | None
    severity: Severity
    success: bool


def read_times(connection: Connection, load_id: int) -> Times | None:
    """Read when a load was planned and published; None if it was not published."""
    return _statements.fetch_one(connection, Times, "read_times", load_id=load_id)


def read_move(connection: Connection, load_id: int, what: str) -> Move:
    """Read the newest event of a load with this name."""
    return _statements.fetch_only(connection, Move, "read_move", load_id=load_id, what=what)


def summarize_checks(connection: Connection, load_id: int) -> list[Outcome]:
    """Read the expectations on a load, each once, in the order in which they ran."""
    return _statements.fetch_all(connection, Outcome, "summarize_checks", load_id=load_id)
