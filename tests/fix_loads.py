"""Loads staged without Kafka and Spark: SQL writes the same ledger and attempt's table as the tasks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

import pytest
from psycopg import sql

from declaring import declare
from fix_kafka import create_topic
from penstock.kafka.admin import read_identity
from penstock.ledger.connection import connect
from penstock.ledger.generation import open_generation, read_newest_generation, read_positions
from penstock.ledger.load import begin_attempt, create_load, finish_staging
from penstock.ledger.pipeline import register_pipeline
from penstock.load.results.tables import prepare_results
from penstock.model.log import Identity
from penstock.model.ranges import Range, cut_chunks
from penstock.target.postgres.attempt import attempt_table
from penstock.target.registry import find_store
from privileges import superuser

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.load import Kind, Load
    from penstock_stack.broker import Broker

_runs = itertools.count(1)
TWO_PARTITIONS = (Range(0, 0, 100), Range(1, 500, 700))


class Bind(Protocol):
    """Binds the loads of a database to an existing topic, and returns the settings for Kafka."""

    def __call__(self, db: str) -> dict[str, str]: ...


@pytest.fixture(scope="session")
def _identity(kafka: Broker) -> Identity:
    """A topic with the name that loads staged without Kafka use."""
    create_topic(kafka.bootstrap, "topic", 1)
    return read_identity({"bootstrap.servers": kafka.bootstrap}, "topic")


@pytest.fixture
def bound(kafka: Broker, _identity: Identity) -> Bind:
    """Bind loads that were staged without Kafka to an existing topic, so that they can be published."""

    def bind(db: str) -> dict[str, str]:
        with connect(superuser(db)) as connection:
            connection.execute(
                "update penstock.generation set cluster_id = %s, topic_id = %s where topic_id = 't'",
                [_identity.cluster_id, _identity.topic_id],
            )
        return {"bootstrap.servers": kafka.bootstrap}

    return bind


def stage_rows(
    db: str,
    ranges: Sequence[Range] = TWO_PARTITIONS,
    *,
    pipeline: Pipeline | None = None,
    kind: Kind = "live",
    holes: Collection[tuple[int, int]] = (),
    quarantined: Collection[tuple[int, int]] = (),
    keyed: bool = True,
    chunk: int = 50,
) -> int:
    """Make a staged load: column id holds the offset and note a text; holes and quarantined are (partition, offset)."""
    with connect(db) as connection:
        load = plan_rows(connection, pipeline or declare("topic"), ranges, kind)
        store = find_store(load.declaration)
        store.prepare(connection)
        store.prepare_indexes(connection)
        prepare_results(connection, load.declaration)
        attempt = begin_attempt(connection, load)
        store.open_attempt(connection, load, attempt)
        fill_attempt(connection, load, attempt, holes, quarantined)
        record_tasks(connection, load, attempt, holes, quarantined, chunk)
        if keyed:
            store.seal(connection, load, attempt)
        finish_staging(connection, load, attempt)
    return load.load_id


def plan_rows(connection: Connection, pipeline: Pipeline, ranges: Sequence[Range], kind: Kind = "live") -> Load:
    """Make a planned load; a partition without a position gets one at its first range."""
    pipeline_id = register_pipeline(connection, pipeline)
    generation_id = _generation(connection, pipeline_id)
    known = {position.partition for position in read_positions(connection, generation_id)}
    for range_ in sorted(ranges, reverse=True):
        if range_.partition not in known:
            connection.execute(
                "insert into penstock.position values (%s, %s, %s, %s)"
                " on conflict (generation_id, partition) do update set position = excluded.position",
                [generation_id, range_.partition, range_.from_offset, range_.from_offset],
            )
    return create_load(
        connection, pipeline_id, generation_id, pipeline, f"{next(_runs)} {kind} {ranges}"[:1000], ranges, kind
    )


def fill_attempt(
    connection: Connection,
    load: Load,
    attempt: int,
    holes: Collection[tuple[int, int]] = (),
    quarantined: Collection[tuple[int, int]] = (),
) -> None:
    """Write the rows and the quarantine of an attempt, in one piece."""
    for range_ in load.ranges:
        skipped = [offset for partition, offset in (*holes, *quarantined) if partition == range_.partition]
        connection.execute(
            sql.SQL(
                "insert into {} (id, note, _load_id, _partition, _offset)"
                " select o, 'note of ' || o, {}, {}, o from generate_series({}, {}) o where o <> all (%s)"
            ).format(
                attempt_table(load.load_id, attempt),
                *map(sql.Literal, (load.load_id, range_.partition, range_.from_offset, range_.until_offset - 1)),
            ),
            [skipped],
        )
    for partition, offset in quarantined:
        quarantine_record(connection, load.load_id, attempt, partition, offset)


def quarantine_record(connection: Connection, load_id: int, attempt: int, partition: int, offset: int) -> None:
    connection.execute(
        'insert into penstock.quarantine (load_id, attempt, partition, "offset", reason, detail)'
        " values (%s, %s, %s, %s, 'bad_json', 'not JSON')",
        [load_id, attempt, partition, offset],
    )


def record_tasks(
    connection: Connection,
    load: Load,
    attempt: int,
    holes: Collection[tuple[int, int]],
    quarantined: Collection[tuple[int, int]],
    records_per_chunk: int,
) -> None:
    """Write what the tasks would have counted."""
    for chunk in cut_chunks(list(load.ranges), records_per_chunk):
        within = chunk.range
        lacking, bad = (
            sum(1 for partition, offset in places if partition == within.partition
                and within.from_offset <= offset < within.until_offset)
            for places in (holes, quarantined)
        )  # fmt: skip
        connection.execute(
            "insert into penstock.stage_task values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [load.load_id, attempt, chunk.task, within.partition, within.from_offset, within.until_offset,
             len(within) - lacking - bad, bad, lacking],
        )  # fmt: skip


def _generation(connection: Connection, pipeline_id: int) -> int:
    found = read_newest_generation(connection, pipeline_id)
    return found.generation_id if found else open_generation(connection, pipeline_id, Identity("c", "t"), epoch=1)
