"""The totals of each pipeline: what it has published so far, and how long the phases of its loads took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/total")


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a counter or of a gauge of one pipeline; a counter counts since a time."""

    name: str
    kind: Literal["counter", "gauge"]
    pipeline: str
    value: float
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Durations:
    """How many loads of a pipeline spent how long in a phase. The last bucket has no bound."""

    pipeline: str
    phase: str
    loads: int
    seconds: float
    buckets: Sequence[int]
    bounds: Sequence[float]
    since: datetime


def count_published(connection: Connection, load_id: int) -> None:
    """Add a load that becomes published to the totals of its pipeline, in the transaction of the publish."""
    _statements.execute(connection, "count_load", load_id=load_id)
    _statements.execute(connection, "count_phases", load_id=load_id)


def read_values(connection: Connection) -> list[Value]:
    """Read every counter and every gauge, in the order of their names."""
    return _statements.fetch_all(connection, Value, "read_values")


def read_durations(connection: Connection) -> list[Durations]:
    """Read the durations of each phase of each pipeline."""
    return _statements.fetch_all(connection, Durations, "read_durations")
