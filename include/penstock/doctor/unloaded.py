"""The unloaded records of a pipeline and their age, as Kafka reports them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.doctor.headroom import find_growth, measure_headroom
from penstock.kafka.first_records import read_first_timestamps
from penstock.load.log_check import find_first_positions
from penstock.model.plan import open_positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.declaration.pipeline import Pipeline
    from penstock.doctor.facts import Known
    from penstock.doctor.headroom import Headroom
    from penstock.doctor.retention import Retention
    from penstock.model.log import TopicLog

# This may take longer than a status. A partition without an answer after this time is unknown.
PATIENCE_SECONDS = 20.0


def read_headroom(
    kafka: Mapping[str, str], pipeline: Pipeline, log: TopicLog, known: Known, retention: Retention | None
) -> tuple[Headroom, ...]:
    """Measure how long Kafka keeps the records of each partition that the next load would read."""
    positions = _locate(kafka, pipeline, log, known)
    oldest = {}
    if retention is not None and retention.time is not None:  # without a limit by age, their age is not needed
        oldest = _read_first_timestamps(kafka, pipeline, log, positions)
    return tuple(
        measure_headroom(number, position, log.partitions[number], retention, oldest.get(number), _now_ms())
        for number, position in sorted(positions.items())
    )


def read_growth(
    kafka: Mapping[str, str], pipeline: Pipeline, log: TopicLog, retention: Retention | None
) -> float | None:
    """Read the offsets per hour of the fastest partition; None without a retention by size."""
    if retention is None or retention.size is None:
        return None
    starts = {number: partition.start for number, partition in log.partitions.items()}
    return find_growth(log.partitions, _read_first_timestamps(kafka, pipeline, log, starts), _now_ms())


def _locate(kafka: Mapping[str, str], pipeline: Pipeline, log: TopicLog, known: Known) -> dict[int, int]:
    """Find where the next load starts in each existing partition, or where the first plan would start."""
    first = {} if known.positions else find_first_positions(kafka, pipeline, log)
    located = {**known.positions, **open_positions(known.positions, log.partitions, first)}
    return {number: position for number, position in located.items() if number in log.partitions}


def _read_first_timestamps(
    kafka: Mapping[str, str], pipeline: Pipeline, log: TopicLog, positions: Mapping[int, int]
) -> dict[int, int]:
    """Read the timestamps (ms) of the first records at or after these positions."""
    within = {
        number: position
        for number, position in positions.items()
        if log.partitions[number].start <= position < log.partitions[number].end
    }
    return read_first_timestamps(kafka, log.topic, within, pipeline.isolation, PATIENCE_SECONDS)


def _now_ms() -> int:
    return int(time.time() * 1000)
