"""Killed leaders, a lost majority, reset, slow or half open connections: reported in time, and no record is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition

from fix_cluster import Cluster
from fix_kafka import MakeTopic
from loading_process import await_blocked, await_true, query, stopped_at_first_copy
from penstock.errors import KafkaError, ReadError
from penstock.kafka import admin as asking
from penstock.kafka.readers import reading
from penstock.kafka.readers.native import open_group
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_load
from penstock.load.stage import begin_staging
from penstock.load.task import stage_group
from penstock.model.ranges import Range, cut_chunks
from penstock.target.assignment import make_assignment
from penstock_stack.broker import Broker
from plain_consumer import open_consumer
from producing import Account
from proving import Watcher, find_faults
from proxy import LIST_OFFSETS, KafkaProxy
from whole_loads import MakeLoader

THREE_LEADERS = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]


@pytest.fixture
def account(cluster: Cluster) -> Account:
    """A topic of three partitions with three copies each, every broker the leader of one."""
    return Account(cluster.bootstrap, cluster.create_topic(THREE_LEADERS, min_insync_replicas="2"))


def read_until_silence(bootstrap: str, topic: str, seconds: float) -> int:
    """End like many jobs: after some seconds without a message, assume that all messages are read."""
    consumer = open_consumer(bootstrap, "silence")
    with closing(consumer):
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
        records = 0
        while message := consumer.poll(seconds):
            records += message.error() is None
    return records


def test_the_leader_killed_during_a_stage_costs_nothing(
    db: str, cluster: Cluster, account: Account, make_loader: MakeLoader
) -> None:
    account.send_orders(60_000, partition=0)  # more than a reader fetches ahead
    loader = make_loader(account.topic, cluster.faulty)
    leader = cluster.find_leader(account.topic, 0)

    with Watcher(db), ThreadPoolExecutor() as threads:
        loading = threads.submit(loader.run)
        with stopped_at_first_copy(db):
            await_blocked(db)
            cluster.brokers[leader].kill()
        loaded = loading.result(120)
    after = cluster.await_leader(account.topic, {1, 2, 3} - {leader})
    account.send_orders(100, first=200_000)  # two of three copies are enough
    again = loader.run()
    cluster.start()

    assert after != leader
    assert loaded is not None
    assert again is not None
    assert (loaded.rows, again.rows) == (60_000, 100)
    assert find_faults(db, account) == []


def test_with_two_of_three_brokers_down_a_plain_job_loads_a_part_and_penstock_stops(
    db: str, cluster: Cluster, account: Account, make_loader: MakeLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 4)  # 120 in use: a shorter bound shows the same
    for partition in range(3):
        account.send_orders(100, partition=partition, first=100 * partition)
    loader = make_loader(account.topic, cluster.bootstrap)
    for node in (2, 3):
        cluster.brokers[node].kill()

    read = read_until_silence(cluster.brokers[1].bootstrap, account.topic, 3)
    with pytest.raises(KafkaError, match="did not answer") as stopped:
        loader.plan()
    assert "Next: check that the brokers run" in str(stopped.value)
    assert query(db, "select count(*) from penstock.load") == [(0,)]

    cluster.start()
    monkeypatch.undo()
    for partition in range(3):
        cluster.await_leader(account.topic, {1, 2, 3}, partition)
    loaded = loader.run()

    assert read == 100  # a third, and no error: the job succeeds
    assert loaded is not None
    assert loaded.rows == 300
    assert find_faults(db, account) == []


@pytest.fixture
def one(make_topic: MakeTopic, faulty_network: KafkaProxy, kafka: Broker) -> Account:
    """A topic of three partitions on one broker, with many records."""
    account = Account(kafka.bootstrap, make_topic(3))
    account.send_orders(90_000, partition=0)
    return account


@pytest.mark.parametrize("fault", ["reset", "late", "half open"])
def test_a_network_that_resets_lags_or_falls_silent_for_a_while_costs_nothing(
    fault: str, db: str, one: Account, make_loader: MakeLoader, faulty_network: KafkaProxy
) -> None:
    loader = make_loader(one.topic, faulty_network.address)
    with Watcher(db), ThreadPoolExecutor() as threads:
        loading = threads.submit(loader.run)
        with stopped_at_first_copy(db):
            await_blocked(db)
            if fault == "reset":
                faulty_network.cut()
            elif fault == "late":
                faulty_network.latency = 0.2
            else:
                faulty_network.hush()
        if fault == "half open":
            await_true(lambda: faulty_network.held, "the reader waits for an answer")
            faulty_network.speak()
        loaded = loading.result(120)

    assert loaded is not None
    assert loaded.rows == 90_000
    assert find_faults(db, one) == []


def test_on_a_silent_network_a_plain_job_succeeds_empty_and_the_plan_fails_in_time(
    db: str, one: Account, make_loader: MakeLoader, faulty_network: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 2)  # 120 in use
    loader = make_loader(one.topic, faulty_network.address)
    faulty_network.hush()
    read = read_until_silence(faulty_network.address, one.topic, 2)
    with pytest.raises(KafkaError, match="did not answer the request for the cluster id"):
        loader.plan()
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 10)  # the other requests are answered
    faulty_network.speak()
    faulty_network.lose_requests(LIST_OFFSETS, 1000)
    with pytest.raises(KafkaError, match=f"the offsets of topic {one.topic} partition 0"):
        loader.plan()

    assert read == 0
    assert query(db, "select count(*) from penstock.load") == [(0,)]


def test_a_reader_without_answers_fails_in_time_and_the_next_run_loads_all(
    db: str, one: Account, make_loader: MakeLoader, faulty_network: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "STALL_SECONDS", 3.0)  # 60 in use
    loader = make_loader(one.topic, faulty_network.address)
    load = loader.plan()
    assert load is not None
    attempt = begin_staging(db, load.load_id)
    assert attempt is not None
    with open_ledger(db) as connection:
        load = read_load(connection, load.load_id)
    [chunk] = cut_chunks(list(load.ranges), 250_000)
    assignment = make_assignment(loader.settings, load, attempt)
    faulty_network.hush()
    with pytest.raises(ReadError, match="reading stopped at offset 0: no record for 3 s") as stopped:
        stage_group(assignment, [chunk], open_group(assignment.source, [chunk]))  # what a Spark task does
    faulty_network.speak()

    assert stopped.value.ranges == (Range(0, 0, 90_000),)
    assert query(db, "select count(*) from penstock.stage_task") == [(0,)]
    loaded = loader.run()  # without any action in between
    assert loaded is not None
    assert loaded.rows == 90_000
    assert find_faults(db, one) == []
