"""The sampler: it asks Kafka about all pipelines, and keeps the answers in the ledger for the page."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Thread
from typing import TYPE_CHECKING

from penstock.errors import DeclarationError, KafkaError, PenstockError
from penstock.kafka.admin import read_configs, read_ends
from penstock.kafka.batches.open_transactions import find_open_transactions
from penstock.kafka.first_records import read_first_of_topics
from penstock.ledger.connection import concerning, open_ledger
from penstock.ledger.decision import autocommitting
from penstock.ledger.sample import (
    LagPoint,
    PartitionSample,
    PipelineSample,
    count_gaps,
    find_old_retention,
    find_uncounted,
    read_known,
    record_samples,
    record_targets,
    thin_history,
)
from penstock.target.postgres.preparation import examine_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.kafka.first_records import First, Place
    from penstock.ledger.connection import Connection
    from penstock.ledger.sample import KnownPartition
    from penstock.model.log import Ends, Isolation, TopicEnds

    # The settings of the client of a Kafka connection.
    FindKafka = Callable[[str], Mapping[str, str]]
    Key = tuple[str, int]  # a pipeline and a partition

# The sampler runs every minute. A cluster that has not answered by then is left to the next run.
MOST_SECONDS = 45.0
# The settings of a topic that decide when Kafka deletes records.
RETENTION = ("cleanup.policy", "retention.ms", "retention.bytes")
FIRST_RECORDS_SECONDS = 10.0


@dataclass(slots=True)
class Sampled:
    """How many pipelines were sampled, and the errors of the others by pipeline."""

    pipelines: int = 0
    errors: dict[str, str] = field(default_factory=dict)


def sample_pipelines(
    uri: str, find_kafka: FindKafka, pipelines: Sequence[Pipeline], seconds: float = MOST_SECONDS
) -> Sampled:
    """Sample pipelines. Each cluster has a thread of its own, so that one that does not answer delays no other."""
    clusters: dict[str, list[Pipeline]] = {}
    for pipeline in pipelines:
        clusters.setdefault(pipeline.kafka, []).append(pipeline)
    done: dict[str, dict[str, str]] = {}
    over = Event()

    def sample(kafka: str, chosen: Sequence[Pipeline]) -> None:
        done[kafka] = _sample_cluster(uri, find_kafka, kafka, chosen, over)

    # Threads of a process that ends do not hold it up, if they are daemons.
    threads = {kafka: Thread(target=sample, args=(kafka, chosen), daemon=True) for kafka, chosen in clusters.items()}
    for thread in threads.values():
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads.values():
        thread.join(max(0.0, until - time.monotonic()))
    over.set()
    sampled = Sampled(len(pipelines))
    late = f"Kafka did not answer within {seconds:g} s"
    for kafka, chosen in clusters.items():
        if kafka not in done:
            _record_errors(uri, chosen, late)
        sampled.errors |= done.get(kafka, {pipeline.name: late for pipeline in chosen})
    _read_ledger(uri, pipelines)
    return sampled


def _sample_cluster(
    uri: str, find_kafka: FindKafka, kafka: str, pipelines: Sequence[Pipeline], over: Event
) -> dict[str, str]:
    """Sample the pipelines of a cluster; the errors by pipeline. After the time is over nothing is recorded."""
    try:
        with concerning():
            return _sample(uri, find_kafka(kafka), pipelines, over)
    except PenstockError as error:
        if not over.is_set():
            _record_errors(uri, pipelines, error.what)
        return {pipeline.name: error.what for pipeline in pipelines}


def _sample(uri: str, kafka: Mapping[str, str], pipelines: Sequence[Pipeline], over: Event) -> dict[str, str]:
    names = [pipeline.name for pipeline in pipelines]
    with closing(open_ledger(uri)) as connection:
        moment = find_old_retention(connection, names)
        known = {(each.pipeline, each.partition): each for each in read_known(connection, names)}
    # No connection is open while Kafka is asked.
    topics = read_ends(kafka, sorted({pipeline.topic for pipeline in pipelines}))
    answered = {
        pipeline.name: ends for pipeline in pipelines if not isinstance(ends := topics[pipeline.topic], KafkaError)
    }
    old = sorted({each.topic for each in pipelines if each.name in answered and each.name in moment.names})
    retention = {topic: _choose(config) for topic, config in read_configs(kafka, old).items()}
    chosen = [pipeline for pipeline in pipelines if pipeline.name in answered]
    partitions = _sample_partitions(kafka, chosen, answered, known)
    samples = [_describe(pipeline, topics[pipeline.topic], retention) for pipeline in pipelines]
    points = _measure_lags([pipeline.name for pipeline in chosen], partitions, known, moment.now)
    if not over.is_set():
        with closing(open_ledger(uri)) as connection, connection.transaction():
            record_samples(connection, moment.now, samples, partitions, points)
    return {sample.pipeline: sample.error for sample in samples if sample.error is not None}


def _choose(config: Mapping[str, str]) -> dict[str, str]:
    return {name: config[name] for name in RETENTION if name in config}


def _describe(
    pipeline: Pipeline, ends: TopicEnds | KafkaError, retention: Mapping[str, Mapping[str, str]]
) -> PipelineSample:
    if isinstance(ends, KafkaError):
        return PipelineSample(pipeline.name, ends.what)
    return PipelineSample(
        pipeline.name, None, ends.identity.cluster_id, ends.identity.topic_id, retention.get(pipeline.topic)
    )


def _sample_partitions(
    kafka: Mapping[str, str],
    pipelines: Sequence[Pipeline],
    answered: Mapping[str, TopicEnds],
    known: Mapping[Key, KnownPartition],
) -> list[PartitionSample]:
    oldest = _find_oldest(kafka, pipelines, answered, known)
    since = _find_open_since(kafka, pipelines, answered, known)
    found = []
    for pipeline in pipelines:
        for number, ends in sorted(answered[pipeline.name].partitions.items()):
            key = (pipeline.name, number)
            offset, at = oldest.get(key, (None, None))
            sample = PartitionSample(
                pipeline=pipeline.name,
                partition=number,
                log_start=ends.start,
                log_end=_end(pipeline, ends),
                last_stable_offset=ends.last_stable,
                high_watermark=ends.high_watermark,
                oldest_offset=offset,
                oldest_at=at,
                open_since=since.get((pipeline.topic, number)),
            )
            found.append(sample)
    return found


def _end(pipeline: Pipeline, ends: Ends) -> int:
    return ends.last_stable if pipeline.isolation == "read_committed" else ends.high_watermark


def _start(known: KnownPartition | None, ends: Ends) -> int:
    position = known.position if known else None
    return ends.start if position is None else max(position, ends.start)


def _find_oldest(
    kafka: Mapping[str, str],
    pipelines: Sequence[Pipeline],
    answered: Mapping[str, TopicEnds],
    known: Mapping[Key, KnownPartition],
) -> dict[Key, tuple[int, datetime | None]]:
    """Find the first record that waits in each partition; the one of the last sample if it still is the first."""
    found: dict[Key, tuple[int, datetime | None]] = {}
    wanted: dict[Isolation, list[tuple[Key, Place, int]]] = {}
    for pipeline in pipelines:
        for number, ends in answered[pipeline.name].partitions.items():
            key = (pipeline.name, number)
            before, start = known.get(key), _start(known.get(key), ends)
            if start >= _end(pipeline, ends):
                continue
            if before and before.oldest_offset is not None and start <= before.oldest_offset:
                found[key] = (before.oldest_offset, before.oldest_at)
            else:
                wanted.setdefault(pipeline.isolation, []).append((key, (pipeline.topic, number), start))
    for isolation, places in wanted.items():
        for reading in _split(places):
            offsets = {place: start for _, place, start in reading}
            first = read_first_of_topics(kafka, offsets, isolation, FIRST_RECORDS_SECONDS)
            found |= {key: _date(record) for key, place, _ in reading if (record := first.get(place))}
    return found


def _split(places: Sequence[tuple[Key, Place, int]]) -> list[list[tuple[Key, Place, int]]]:
    """Split the places into readings that hold each partition once: a consumer reads a partition at one offset."""
    readings: list[list[tuple[Key, Place, int]]] = []
    turns: dict[Place, int] = {}
    for each in places:
        turn = turns.get(each[1], 0)
        turns[each[1]] = turn + 1
        if turn == len(readings):
            readings.append([])
        readings[turn].append(each)
    return readings


def _date(first: First) -> tuple[int, datetime | None]:
    at = None if first.timestamp is None else datetime.fromtimestamp(first.timestamp / 1000, UTC)
    return first.offset, at


def _find_open_since(
    kafka: Mapping[str, str],
    pipelines: Sequence[Pipeline],
    answered: Mapping[str, TopicEnds],
    known: Mapping[Key, KnownPartition],
) -> dict[Place, datetime]:
    """Find since when the transactions at the last stable offsets are open; those of the last sample are known."""
    found: dict[Place, datetime] = {}
    unknown = set()
    for pipeline in pipelines:
        if pipeline.isolation != "read_committed":
            continue
        for number, ends in answered[pipeline.name].partitions.items():
            if ends.last_stable >= ends.high_watermark:
                continue
            before = known.get((pipeline.name, number))
            if before and before.open_since and before.last_stable_offset == ends.last_stable:
                found[pipeline.topic, number] = before.open_since
            else:
                unknown.add(pipeline.topic)
    opened = find_open_transactions(kafka, unknown)
    return {(each.topic, each.partition): each.began_at for each in opened if each.began_at} | found


def _measure_lags(
    names: Sequence[str],
    partitions: Sequence[PartitionSample],
    known: Mapping[Key, KnownPartition],
    now: datetime,
) -> list[LagPoint]:
    """The lag of pipelines now, as `penstock status` counts it, and the age of the oldest record that waits."""
    lags, oldest = dict.fromkeys(names, 0), dict[str, datetime]()
    for each in partitions:
        before = known.get((each.pipeline, each.partition))
        position = each.log_start if before is None or before.position is None else before.position
        if position >= each.log_end:
            continue
        lags[each.pipeline] += each.log_end - position
        if each.oldest_at is not None:
            oldest[each.pipeline] = min(each.oldest_at, oldest.get(each.pipeline, each.oldest_at))
    ages = {name: max(0.0, (now - at).total_seconds()) for name, at in oldest.items()}
    return [LagPoint(name, lag, ages.get(name) if lag else 0.0) for name, lag in lags.items()]


def _record_errors(uri: str, pipelines: Sequence[Pipeline], what: str) -> None:
    """Record that Kafka did not answer; the offsets of the last answer stay."""
    samples = [PipelineSample(pipeline.name, what) for pipeline in pipelines]
    with concerning(), closing(open_ledger(uri)) as connection, connection.transaction():
        now = find_old_retention(connection, []).now
        record_samples(connection, now, samples, [], [])


def _read_ledger(uri: str, pipelines: Sequence[Pipeline]) -> None:
    """Count the gaps of pipelines whose ledger has changed, examine the targets, and bound the history."""
    names = [pipeline.name for pipeline in pipelines]
    with concerning(), closing(open_ledger(uri)) as connection, autocommitting(connection):
        for uncounted in find_uncounted(connection, names):
            count_gaps(connection, uncounted)
        record_targets(connection, {pipeline.name: _examine(connection, pipeline) for pipeline in pipelines})
        thin_history(connection)


def _examine(connection: Connection, pipeline: Pipeline) -> tuple[str, str] | None:
    try:
        examine_target(connection, pipeline)
    except DeclarationError as error:
        return error.what, error.next_step
    return None
