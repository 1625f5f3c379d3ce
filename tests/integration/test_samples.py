"""Samples of the logs: the page's health by them is the health of `penstock status`, and Kafka is asked by no view."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import psycopg
import pytest

from declaring import declare
from penstock.ledger.connection import open_for_reading, open_ledger
from penstock.load.plan import plan_load
from penstock.status.pipelines import read_status
from penstock.status.sampler import sample_pipelines
from penstock.status.samples import read_sampled
from privileges import superuser
from producing import Account, order
from proxy import LIST_OFFSETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fix_kafka import MakeTopic
    from penstock.declaration.pipeline import Pipeline
    from penstock.status.samples import SampledStatus
    from penstock_stack.broker import Broker
    from proxy import KafkaProxy


def _sample(db: str, kafka: Broker, pipelines: Sequence[Pipeline]) -> dict[str, SampledStatus]:
    sampled = sample_pipelines(db, lambda _: {"bootstrap.servers": kafka.bootstrap}, pipelines)
    assert sampled.errors == {}
    return _read(db, pipelines)


def _read(db: str, pipelines: Sequence[Pipeline]) -> dict[str, SampledStatus]:
    with open_for_reading(db) as connection:
        return read_sampled(connection, pipelines, {})


def _compare(db: str, kafka: Broker, pipelines: Sequence[Pipeline]) -> list[str]:
    """Compare samples with `penstock status`; the words of the health."""
    sampled = _sample(db, kafka, pipelines)
    with open_ledger(db) as connection:
        statuses = read_status(connection, {"bootstrap.servers": kafka.bootstrap}, pipelines)
    for status in statuses:
        found = sampled[status.name]
        assert found.health == status.health
        assert found.lag == sum(partition.lag or 0 for partition in status.partitions)
        ages = [partition.lag_seconds for partition in status.partitions if partition.lag_seconds is not None]
        assert found.oldest_seconds == pytest.approx(max(ages), abs=30)
    return [status.health.state for status in statuses]


def test_the_health_by_samples_is_the_health_of_status(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic(3))
    account.send_orders(40)
    account.send_orders(5, partition=1)
    open_one = account.begin("open")
    account.leave_open(open_one, [order(100)], partition=0)
    pipelines = [
        declare(account.topic, name="settled"),
        declare(account.topic, name="all_of_it", isolation="read_uncommitted"),
    ]
    assert _compare(db, kafka, pipelines) == ["new", "new"]
    plan_load(db, {"bootstrap.servers": kafka.bootstrap}, pipelines[0], "run 1")
    assert _compare(db, kafka, pipelines) == ["loading", "new"]
    account.delete_before(1, partition=1)
    assert _compare(db, kafka, pipelines) == ["log_lost", "new"]
    open_one.abort_transaction(30)


def test_a_position_that_moved_after_the_sample_is_not_a_lost_log(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(10)
    pipeline = declare(account.topic)
    plan_load(db, {"bootstrap.servers": kafka.bootstrap}, pipeline, "run 1")
    assert _sample(db, kafka, [pipeline])["orders"].lag == 10
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("update penstock.position set position = 25, moved_at = clock_timestamp()")
    found = _read(db, [pipeline])["orders"]
    assert (found.lag, found.health.state) == (0, "loading")


def test_a_silent_cluster_delays_no_other_and_the_last_offsets_stay(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(10)
    pipelines = [declare(account.topic, name="near"), declare(account.topic, name="far", kafka="kafka_far")]
    _sample(db, kafka, pipelines)
    account.send_orders(1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        far = f"127.0.0.1:{silent.getsockname()[1]}"
        servers = {"kafka_default": kafka.bootstrap, "kafka_far": far}
        sampled = sample_pipelines(db, lambda name: {"bootstrap.servers": servers[name]}, pipelines, seconds=10)
    assert list(sampled.errors) == ["far"]
    found = _read(db, pipelines)
    assert (found["near"].lag, found["near"].health.state) == (11, "new")
    assert (found["far"].lag, found["far"].health.state) == (10, "unknown")
    assert found["far"].health.cause == "Kafka did not answer within 10 s"


def test_the_requests_of_a_sample_do_not_grow_with_its_topics(
    db: str, make_topic: MakeTopic, faulty_network: KafkaProxy
) -> None:
    settings = {"bootstrap.servers": faulty_network.address}
    pipelines = [declare(make_topic(4), name=f"p{number}") for number in range(30)]
    for chosen in (pipelines[:1], pipelines):  # the first sample also reads the retention of each topic
        sample_pipelines(db, lambda _: settings, chosen)
        before = faulty_network.seen.copy()
        assert sample_pipelines(db, lambda _: settings, chosen).errors == {}
        asked = faulty_network.seen - before
        assert asked[LIST_OFFSETS] == 3, asked
        assert asked.total() <= 15, asked


def test_a_missing_topic_and_a_late_sampler_are_named(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic())
    pipelines = [declare(account.topic, name="there"), declare("no-such-topic", name="missing")]
    assert _read(db, pipelines)["there"].health.cause.startswith("the log was not sampled yet")
    errors = sample_pipelines(db, lambda _: {"bootstrap.servers": kafka.bootstrap}, pipelines).errors
    assert list(errors) == ["missing"]
    assert "no-such-topic" in errors["missing"]
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("update penstock.sample set answered_at = answered_at - interval '12 minutes'")
    found = _read(db, pipelines)
    assert found["there"].health.cause == "nothing loaded yet (the log was sampled 12 min ago)"
    assert found["missing"].health.state == "unknown"


def test_the_history_of_a_day_is_thinned_to_one_point_an_hour(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    pipeline = declare(make_topic())
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(
            "insert into penstock.sample_history select 'orders', now() - make_interval(mins => minutes), 1, 1"
            " from generate_series(1, 1800) as minutes"
            " union all select 'orders', now() - interval '31 days', 1, 1"
        )
    _sample(db, kafka, [pipeline])
    with psycopg.connect(superuser(db)) as connection:
        kept = "select count(*) from penstock.sample_history where at {} now() - interval '24 hours'"
        fine, thin = (connection.execute(kept.format(sign)).fetchone() for sign in (">=", "<"))
    assert fine is not None
    assert fine[0] in (1440, 1441)
    assert thin is not None
    assert 6 <= thin[0] <= 7
