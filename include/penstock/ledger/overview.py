"""Pipelines as the page shows them: the ledger beside the newest samples of the logs. It reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/overview")


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """A pipeline with its newest sample; the columns of the sample are None without one.

    `is_adopted_since` is true if the sample shows another topic only because it was taken before the adoption.
    """

    name: str
    taken_at: datetime | None
    answered_at: datetime | None
    error: str | None
    cluster_id: str | None
    topic_id: str | None
    retention: Mapping[str, str] | None
    bad_target: str | None
    bad_target_next_step: str | None
    counted_at: datetime | None
    gaps: int
    quarantined: int
    quarantined_loads: int
    is_adopted_since: bool | None
    lag: int | None
    oldest_at: datetime | None
    faulty: list[dict[str, Any]] | None
    earlier_lag: int | None
    recent: list[dict[str, Any]] | None
    busy: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition: its position, None before the first plan, and its sample, None without one."""

    partition: int
    position: int | None
    origin: int | None
    log_start: int | None
    log_end: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    oldest_offset: int | None
    oldest_at: datetime | None
    open_since: datetime | None
    gaps: int

    @property
    def lag(self) -> int | None:
        """The offsets that are not loaded yet; None without a sample."""
        if self.log_end is None or self.log_start is None:
            return None
        return max(0, self.log_end - (self.log_start if self.position is None else self.position))

    @property
    def start(self) -> int | None:
        """Where the next load starts."""
        return self.log_start if self.position is None else self.position

    @property
    def oldest_waiting(self) -> datetime | None:
        """The time of the oldest record that is not loaded; None if it is not known."""
        if not self.lag or self.oldest_offset is None or self.start is None or self.oldest_offset < self.start:
            return None
        return self.oldest_at


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """The lag at a moment."""

    at: datetime
    lag: int | None
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True)
class NewestVerification:
    """The newest verification of a pipeline; `ended_at` is None while it runs."""

    verification_id: int
    began_at: datetime
    ended_at: datetime | None
    share: float
    faults: int


def read_overviews(connection: Connection, names: Sequence[str]) -> dict[str, OverviewRow]:
    """Read pipelines by their names. A pipeline without a plan and without a sample has a row too."""
    found = _statements.fetch_all(connection, OverviewRow, "read_overviews", names=list(names))
    return {row.name: row for row in found}


def read_partitions(connection: Connection, pipeline: str) -> list[PartitionRow]:
    """Read the partitions of a pipeline, those that were never sampled too."""
    return _statements.fetch_all(connection, PartitionRow, "read_partitions", pipeline=pipeline)


def read_trend(connection: Connection, pipeline: str) -> list[TrendPoint]:
    """Read the lag of the last 24 hours, the oldest first."""
    return _statements.fetch_all(connection, TrendPoint, "read_trend", pipeline=pipeline)


def read_newest_verification(connection: Connection, pipeline: str) -> NewestVerification | None:
    """Read the newest verification of a pipeline."""
    return _statements.fetch_one(connection, NewestVerification, "read_newest_verification", pipeline=pipeline)
