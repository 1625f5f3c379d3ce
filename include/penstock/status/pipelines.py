"""The status of pipelines: the state in the ledger beside the state of the log."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import DeclarationError, IdentityError, KafkaError
from penstock.kafka.admin import read_logs
from penstock.kafka.first_records import read_first_timestamps
from penstock.kafka.identity import refuse_other_identity
from penstock.ledger.decision import autocommitting
from penstock.ledger.generation import read_positions
from penstock.ledger.status import read_pipelines
from penstock.model.health import (
    Health,
    Missing,
    Newest,
    OpenFaults,
    OpenHold,
    judge,
    judge_bad_target,
    judge_broken,
    name_held_redrives,
    name_waiting_results,
)
from penstock.model.load import LoadState
from penstock.model.plan import find_faults
from penstock.target.postgres.preparation import examine_target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.ledger.status import PipelineRow
    from penstock.model.log import Isolation, TopicLog
    from penstock.model.plan import Fault


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition. `position` is None before the first plan, values of the log if Kafka does not answer."""

    partition: int
    position: int | None
    log_start: int | None
    end: int | None
    lag: int | None
    lag_seconds: float | None


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """One pipeline. The hash is that of the file of the transform that `load`, the newest live load, has run."""

    name: str
    health: Health
    load: int | None
    partitions: tuple[PartitionStatus, ...]
    missing: Missing
    transform: str | None = None
    transform_sha256: str | None = None


def read_status(
    connection: Connection, kafka: Mapping[str, str], pipelines: Sequence[Pipeline]
) -> list[PipelineStatus]:
    """Read the status of pipelines that share one Kafka connection. No transaction is open while Kafka is queried."""
    with autocommitting(connection):
        ledger = _read_ledger(connection, [pipeline.name for pipeline in pipelines])
        logs, unreachable = _read_logs(kafka, pipelines)
        return [
            _describe(
                connection,
                kafka,
                pipeline,
                ledger.get(pipeline.name),
                logs.get((pipeline.topic, pipeline.isolation)),
                unreachable,
            )
            for pipeline in pipelines
        ]


def read_broken_status(connection: Connection, name: str, mistakes: str) -> PipelineStatus:
    """Read the status of a pipeline with an invalid declaration; the ledger knows the pipeline by its name."""
    row = _read_ledger(connection, [name]).get(name)
    positions = _read_positions(connection, row).items()
    return PipelineStatus(
        name,
        judge_broken(name, mistakes),
        row.load_id if row else None,
        tuple(PartitionStatus(partition, position, None, None, None, None) for partition, position in positions),
        _read_missing(row),
    )


def _read_ledger(connection: Connection, names: Sequence[str]) -> dict[str, PipelineRow]:
    return {row.name: row for row in read_pipelines(connection, names)}


def _read_logs(
    kafka: Mapping[str, str], pipelines: Sequence[Pipeline]
) -> tuple[dict[tuple[str, Isolation], TopicLog], dict[str, str]]:
    """Read all topics of an isolation at once; if that fails, one by one, so that a missing topic hides no other.

    The isolation decides where a log ends, so two pipelines of one topic may see different ends.
    """
    logs: dict[tuple[str, Isolation], TopicLog] = {}
    unreachable: dict[str, str] = {}
    for isolation in sorted({pipeline.isolation for pipeline in pipelines}):
        topics = sorted({pipeline.topic for pipeline in pipelines if pipeline.isolation == isolation})
        found = _read_logs_at(kafka, isolation, topics, unreachable)
        logs |= {(topic, isolation): log for topic, log in found.items()}
    return logs, unreachable


def _read_logs_at(
    kafka: Mapping[str, str], isolation: Isolation, topics: Sequence[str], unreachable: dict[str, str]
) -> dict[str, TopicLog]:
    try:
        return read_logs(kafka, dict.fromkeys(topics, isolation))
    except KafkaError as error:
        if len(topics) == 1:
            unreachable[topics[0]] = error.what
            return {}
    logs: dict[str, TopicLog] = {}
    for topic in topics:
        logs |= _read_logs_at(kafka, isolation, [topic], unreachable)
    return logs


def _describe(
    connection: Connection,
    kafka: Mapping[str, str],
    pipeline: Pipeline,
    row: PipelineRow | None,
    log: TopicLog | None,
    unreachable: Mapping[str, str],
) -> PipelineStatus:
    positions = _read_positions(connection, row)
    other_topic = _find_other_topic(pipeline, row, log)
    partitions = _describe_partitions(kafka, pipeline, positions, None if other_topic else log)
    faults = find_faults(positions, log.partitions) if log and not other_topic else ()
    lags = [partition.lag for partition in partitions if partition.lag is not None]
    seen = Seen(faults, sum(lags) if lags else None, unreachable.get(pipeline.topic, ""), other_topic)
    health = judge_pipeline(pipeline, row, seen, _judge_target(connection, pipeline))
    return PipelineStatus(
        pipeline.name,
        health,
        row.load_id if row else None,
        partitions,
        _read_missing(row),
        pipeline.transform,
        row.transform_sha256 if row else None,
    )


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of the log: its faults, the lag, why Kafka did not answer, and whether it is another topic."""

    faults: tuple[Fault, ...]
    lag: int | None
    unreachable: str
    other_topic: str


def judge_pipeline(pipeline: Pipeline, row: PipelineRow | None, seen: Seen, bad_target: Health | None) -> Health:
    """Judge a pipeline by its row in the ledger and the state of its log."""
    health = judge(
        pipeline.name,
        _read_newest(row),
        seen.faults,
        seen.lag,
        seen.unreachable,
        seen.other_topic,
        hold=_read_hold(row),
        on_loss=pipeline.on_loss,
        missing=_read_missing(row),
        found=_read_found(row),
    )
    health = name_waiting_results(bad_target or health, pipeline.name, (row and row.waiting_results) or [])
    return name_held_redrives(health, (row and row.held_redrives) or [])


def _read_newest(row: PipelineRow | None) -> Newest | None:
    if row is None or row.load_id is None or row.state is None:
        return None
    state = LoadState(row.state)
    idle = row.idle_seconds or 0.0
    return Newest(row.load_id, state, row.cause, row.somebody_works, row.since, idle, row.failure, row.failure_step)


def _read_hold(row: PipelineRow | None) -> OpenHold | None:
    if row is None or row.hold is None or row.hold_cause is None or row.began_at is None:
        return None
    return OpenHold(row.hold, row.hold_cause, row.began_at)


def _read_found(row: PipelineRow | None) -> OpenFaults | None:
    if row is None or row.verification_id is None or row.first_fault is None or not row.faults:
        return None
    return OpenFaults(row.verification_id, row.faults, row.first_fault)


def _read_missing(row: PipelineRow | None) -> Missing:
    return Missing(row.gaps, tuple(row.backfills or ()), row.lost) if row else Missing()


def _read_positions(connection: Connection, row: PipelineRow | None) -> dict[int, int]:
    if row is None or row.generation_id is None:
        return {}
    return {each.partition: each.position for each in read_positions(connection, row.generation_id)}


def _find_other_topic(pipeline: Pipeline, row: PipelineRow | None, log: TopicLog | None) -> str:
    if row is None or row.cluster_id is None or row.topic_id is None or log is None:
        return ""
    try:
        refuse_other_identity(pipeline, row.cluster_id, row.topic_id, log)
    except IdentityError as error:
        return error.what
    return ""


def _judge_target(connection: Connection, pipeline: Pipeline) -> Health | None:
    try:
        examine_target(connection, pipeline)
    except DeclarationError as error:
        return judge_bad_target(error)
    return None


def _describe_partitions(
    kafka: Mapping[str, str], pipeline: Pipeline, positions: Mapping[int, int], log: TopicLog | None
) -> tuple[PartitionStatus, ...]:
    found = log.partitions if log else {}
    behind = {
        partition: max(positions.get(partition, known.start), known.start)
        for partition, known in found.items()
        if max(positions.get(partition, known.start), known.start) < known.end
    }
    oldest = read_first_timestamps(kafka, pipeline.topic, behind, pipeline.isolation)
    now = time.time()
    described = []
    for partition in sorted(positions.keys() | found.keys()):
        known = found.get(partition)
        position = positions.get(partition)
        lag = max(0, known.end - (known.start if position is None else position)) if known else None
        described.append(
            PartitionStatus(
                partition=partition,
                position=position,
                log_start=known.start if known else None,
                end=known.end if known else None,
                lag=lag,
                lag_seconds=_age(now, oldest.get(partition), lag),
            )
        )
    return tuple(described)


def _age(now: float, oldest_ms: int | None, lag: int | None) -> float | None:
    """The age of the oldest record that is not loaded. It is never negative, even if the producer's clock is ahead."""
    if lag == 0:
        return 0.0
    return None if oldest_ms is None else round(max(0.0, now - oldest_ms / 1000), 3)
