"""Each setting against loss is removed in turn: the lost records, and the report of Penstock."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from fix_cluster import Cluster
from fix_kafka import MakeTopic
from loading_process import await_true, query
from penstock.errors import KafkaError as PenstockKafkaError
from penstock.errors import LogLostError
from penstock.model.ranges import Range
from penstock_stack.broker import Broker
from plain_consumer import open_consumer, read_ids, read_to_end, run_hourly
from producing import HASTY, Account, Sent, order
from proving import find_faults
from proxy import PRODUCE, KafkaProxy
from whole_loads import MakeLoader

ALL = {"acks": "all"}


def produce(
    bootstrap: str,
    topic: str,
    numbers: range,
    settings: Mapping[str, Any],
    after_first: Callable[[], None] | None = None,
) -> tuple[list[int], list[str]]:
    """Send orders one by one; return the acknowledged ones, and the names of the errors of the others."""
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.list_topics(topic, timeout=10)
    acknowledged: list[int] = []
    errors: list[str] = []

    def note(number: int, error: KafkaError | None) -> None:
        if error is None:
            acknowledged.append(number)
        else:
            errors.append(error.name())

    for number in numbers:
        producer.produce(
            topic, order(number), partition=0, on_delivery=lambda error, _, number=number: note(number, error)
        )
        if after_first and number == numbers[0]:
            assert producer.flush(30) == 0
            after_first()
    assert producer.flush(30) == 0
    return acknowledged, errors


def read_log(bootstrap: str, topic: str, offset: int = 0) -> list[int]:
    """Read the ids of the log from an offset on, in the order of the log."""
    consumer = open_consumer(bootstrap, "log")
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, offset)])
        return read_ids(read_to_end(consumer))


def account_for(bootstrap: str, topic: str, log: list[int]) -> Account:
    """The account of a log that holds exactly these orders, from offset 0 on."""
    return Account(bootstrap, topic, [Sent(0, offset, order(id_), "plain") for offset, id_ in enumerate(log)])


# --- the producer ---------------------------------------------------------------------------------------------------


def test_without_retries_a_lost_request_is_a_lost_record_and_with_them_it_is_not(
    kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy
) -> None:
    topic = make_topic()
    for first, retries in ((0, 0), (10, 5)):
        faulty_network.lose_requests(PRODUCE, 1)
        result = produce(faulty_network.address, topic, range(first, first + 1), HASTY | {"retries": retries})
        assert result == (([], ["_MSG_TIMED_OUT"]) if retries == 0 else ([10], []))

    assert read_log(kafka.bootstrap, topic) == [10]


@pytest.mark.parametrize(("idempotent", "log"), [(False, [0, 2, 3, 4, 5, 1]), (True, [0, 1, 2, 3, 4, 5])])
def test_without_idempotence_a_retry_changes_the_order_and_the_table_has_the_logs_order(
    idempotent: bool, log: list[int], db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy,
    make_loader: MakeLoader,
) -> None:  # fmt: skip
    topic = make_topic()
    one_by_one = {"enable.idempotence": idempotent, "batch.num.messages": 1, "linger.ms": 0}
    acknowledged, errors = produce(
        faulty_network.address, topic, range(6), HASTY | one_by_one,
        after_first=lambda: faulty_network.lose_requests(PRODUCE, 1),
    )  # fmt: skip
    loaded = make_loader(topic).run()

    assert (sorted(acknowledged), errors) == ([0, 1, 2, 3, 4, 5], [])
    assert read_log(kafka.bootstrap, topic) == log
    assert loaded is not None
    assert [id_ for (id_,) in query(db, "select id from analytics.orders order by _offset")] == log


def test_acks_1_acknowledges_records_that_die_with_the_leader_and_acks_all_does_not(
    db: str, cluster: Cluster, make_loader: MakeLoader
) -> None:
    topics = {acks: cluster.create_topic([(1, 2, 3)], min_insync_replicas="2") for acks in ("1", "all")}
    for topic in topics.values():
        assert len(produce(cluster.bootstrap, topic, range(10), ALL)[0]) == 10
    loader = make_loader(topics["1"], cluster.bootstrap)
    before = loader.run()

    with stopped(cluster.brokers[2], cluster.brokers[3]):
        # The pending fetches of these two may still be answered: the first record answers them.
        acknowledged = {acks: list[int]() for acks in topics}
        for acks, topic in topics.items():
            for numbers in (range(10, 11), range(11, 61)):
                limit = {"message.timeout.ms": 1000} if acks == "all" else {}
                acknowledged[acks] += produce(cluster.brokers[1].bootstrap, topic, numbers, {"acks": acks} | limit)[0]
        cluster.brokers[1].kill()
    for topic in topics.values():
        cluster.await_leader(topic, {2, 3})
        # A record on one of the two is readable as soon as the other has it, which is before a later record.
        assert len(produce(cluster.brokers[2].bootstrap, topic, range(61, 62), ALL)[0]) == 1
    logs = {acks: read_log(cluster.bootstrap, topic) for acks, topic in topics.items()}
    loader.run()
    cluster.start()

    assert before is not None
    assert (len(acknowledged["1"]), len(acknowledged["all"])) == (51, 0)
    assert set(range(11, 61)) <= set(acknowledged["1"]) - set(logs["1"])  # acknowledged, and in no log
    assert set(acknowledged["all"]) <= set(logs["all"])
    assert find_faults(db, account_for(cluster.bootstrap, topics["1"], logs["1"])) == []


@contextmanager
def stopped(*brokers: Broker) -> Iterator[None]:
    """Brokers that hang: SIGSTOP, and SIGCONT at the end."""
    for broker in brokers:
        for pid in broker.pids():
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for broker in brokers:
            for pid in broker.pids():
                os.kill(pid, signal.SIGCONT)


# --- the topic ------------------------------------------------------------------------------------------------------


def test_a_single_copy_loses_acknowledged_records_and_penstock_names_the_offsets(
    db: str, cluster: Cluster, make_loader: MakeLoader
) -> None:
    """One fault for four topics: the follower fails, the leader continues alone and dies, the follower comes back."""
    unclean = cluster.create_topic([(1, 2)], min_insync_replicas="1", unclean_leader_election_enable="true")
    clean = cluster.create_topic([(1, 2)], min_insync_replicas="1", unclean_leader_election_enable="false")
    strict = cluster.create_topic([(1, 2)], min_insync_replicas="2", unclean_leader_election_enable="false")
    single = cluster.create_topic([(1,)], min_insync_replicas="1")
    topics = (unclean, clean, strict, single)
    loaders = {topic: make_loader(topic, cluster.bootstrap, name=f"load_{topic}") for topic in topics}
    for topic in topics:
        produce(cluster.bootstrap, topic, range(100), ALL)

    cluster.brokers[2].kill()
    for topic in (unclean, clean, strict):
        cluster.await_in_sync(topic, {1})
    limits = {strict: {"message.timeout.ms": 1500}}
    alone = {
        topic: produce(cluster.bootstrap, topic, range(100, 150), ALL | limits.get(topic, {}))[0] for topic in topics
    }
    assert {topic: len(alone[topic]) for topic in topics} == {unclean: 50, clean: 50, strict: 0, single: 50}
    loaded = {topic: loaders[topic].run() for topic in topics}
    assert [load and load.rows for load in loaded.values()] == [150, 150, 100, 150]

    cluster.brokers[1].kill()
    shutil.rmtree(cluster.brokers[1].folder / "data" / f"{single}-0")  # the disk is lost, and there is no copy
    cluster.brokers[2].spawn()
    cluster.brokers[2].await_ready()
    cluster.await_leader(unclean, {2})

    # unclean.leader.election.enable=true: the log was truncated below the loaded offsets.
    with pytest.raises(LogLostError, match="the position 150 is beyond the end of the log, 100") as cut:
        loaders[unclean].plan()
    assert cut.value.ranges == (Range(0, 100, 150),)
    # … and it has grown past them since: its offsets no longer show the truncation.
    produce(cluster.bootstrap, unclean, range(1000, 1060), ALL)
    with pytest.raises(LogLostError, match="the log was truncated at 100, below the position 150") as cut:
        loaders[unclean].plan()
    assert cut.value.ranges == (Range(0, 100, 150),)
    # A plain consumer that had read to 150 continues there: it never sees 50 of the 60 new records.
    assert read_log(cluster.bootstrap, unclean, 150) == list(range(1050, 1060))
    # unclean.leader.election.enable=false: no leader until the broker with all records is back. Late, but complete.
    assert cluster.find_leader(clean) == -1
    with pytest.raises(PenstockKafkaError, match="did not answer"):
        loaders[clean].plan()

    cluster.start()
    cluster.await_leader(clean, {1})
    cluster.await_leader(single, {1})
    produce(cluster.bootstrap, clean, range(150, 160), ALL)
    again = loaders[clean].run()
    assert again is not None
    assert (again.ranges, again.rows) == ((Range(0, 150, 160),), 10)
    # Replication factor 1, and the disk is lost.
    with pytest.raises(LogLostError, match="the position 150 is beyond the end of the log, 0"):
        loaders[single].plan()
    for topic in (clean, strict):
        log = read_log(cluster.bootstrap, topic)
        name = f"load_{topic}"
        assert find_faults(db, account_for(cluster.bootstrap, topic, log), name, f"analytics.{name}") == []


# --- the consumer ---------------------------------------------------------------------------------------------------


def test_auto_commit_loses_polled_records_and_penstock_commits_published_ones(
    db: str, kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(100)
    consumer = open_consumer(
        kafka.bootstrap, "auto", enable_auto_commit=True, auto_commit_interval_ms=50, auto_offset_reset="earliest"
    )
    consumer.subscribe([account.topic])
    polled = read_to_end(consumer)
    asking = open_consumer(kafka.bootstrap, "auto")
    partition = TopicPartition(account.topic, 0)
    with closing(asking):
        await_true(lambda: asking.committed([partition], timeout=10)[0].offset == 100, "the client has committed")
    processed: list[int] = []  # the process dies here, before it has processed any
    consumer.close()
    processed += run_hourly(kafka.bootstrap, account.topic, "auto", auto_offset_reset="earliest")

    loader = make_loader(account.topic)
    load = loader.plan()
    assert load is not None
    loader.stage(load.load_id)  # all records are read; the process dies here
    again = loader.run()

    assert (len(polled), processed) == (100, [])
    assert again is not None
    assert again.rows == 100
    assert find_faults(db, account) == []
