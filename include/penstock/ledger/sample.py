"""Samples of the logs in the ledger, in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from penstock.ledger.connection import Connection

# The retention of a topic changes by hand only.
RETENTION_EVERY = timedelta(minutes=10)

_statements = Statements("ledger/sample")


@dataclass(frozen=True, slots=True)
class KnownPartition:
    """A partition before its next sample: the position, None before the first plan, and the sample before."""

    pipeline: str
    partition: int
    position: int | None
    last_stable_offset: int | None
    oldest_offset: int | None
    oldest_at: datetime | None
    open_since: datetime | None


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of the ledger's clock, and the pipelines whose retention has to be read."""

    now: datetime
    names: list[str]


@dataclass(frozen=True, slots=True)
class PartitionSample:
    """The offsets of a partition; `log_end` is its end at the isolation of the pipeline."""

    pipeline: str
    partition: int
    log_start: int
    log_end: int
    last_stable_offset: int
    high_watermark: int
    oldest_offset: int | None
    oldest_at: datetime | None
    open_since: datetime | None


@dataclass(frozen=True, slots=True)
class PipelineSample:
    """The answer of Kafka about the topic of a pipeline; `error` says why there is none."""

    pipeline: str
    error: str | None
    cluster_id: str | None = None
    topic_id: str | None = None
    retention: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class LagPoint:
    """The lag of a pipeline at the time of a sample."""

    pipeline: str
    lag: int
    oldest_seconds: float | None


@dataclass(frozen=True, slots=True)
class Uncounted:
    """A pipeline whose gaps have to be counted, and the state of the ledger that the counts will belong to."""

    pipeline: str
    generation_id: int | None
    state: str


def read_known(connection: Connection, names: Sequence[str]) -> list[KnownPartition]:
    """Read the partitions of pipelines before the next sample."""
    return _statements.fetch_all(connection, KnownPartition, "read_known", names=list(names))


def find_old_retention(connection: Connection, names: Sequence[str]) -> Moment:
    """Read the clock, and find the pipelines whose retention was read too long ago."""
    where = {"names": list(names), "every": RETENTION_EVERY}
    return _statements.fetch_only(connection, Moment, "find_old_retention", **where)


def record_samples(
    connection: Connection,
    at: datetime,
    samples: Sequence[PipelineSample],
    partitions: Sequence[PartitionSample],
    points: Sequence[LagPoint],
) -> None:
    """Record the samples of pipelines and of all partitions of those that have no error."""
    _statements.execute(connection, "record_samples", at=at, samples=_to_json(samples))
    _statements.execute(connection, "record_partitions", partitions=_to_json(partitions))
    answered = [sample.pipeline for sample in samples if sample.error is None]
    places = Jsonb([{"pipeline": each.pipeline, "partition": each.partition} for each in partitions])
    _statements.execute(connection, "forget_partitions", names=answered, partitions=places)
    _statements.execute(connection, "record_history", at=at, points=_to_json(points))


def thin_history(connection: Connection) -> None:
    """Delete points of the history that are too old, or closer together than an hour after a day."""
    _statements.execute(connection, "thin_history")


def find_uncounted(connection: Connection, names: Sequence[str]) -> list[Uncounted]:
    """Find the pipelines whose ledger has changed since their gaps were counted."""
    return _statements.fetch_all(connection, Uncounted, "find_uncounted", names=list(names))


def count_gaps(connection: Connection, uncounted: Uncounted) -> None:
    """Count the gaps and the quarantine of a pipeline."""
    _statements.execute(connection, "count_gaps", **asdict(uncounted))


def record_targets(connection: Connection, targets: Mapping[str, tuple[str, str] | None]) -> None:
    """Record the targets that take no load, with the reason and the next step; None for the others."""
    rows = [{"pipeline": name, "what": bad and bad[0], "next_step": bad and bad[1]} for name, bad in targets.items()]
    _statements.execute(connection, "record_targets", targets=Jsonb(rows))


def _to_json(rows: Sequence[Any]) -> Jsonb:
    return Jsonb([{name: _write(value) for name, value in asdict(row).items()} for row in rows])


def _write(value: object) -> object:
    return value.isoformat() if hasattr(value, "isoformat") else value
