"""The positions in a consumer group that Penstock writes and never reads, at a real broker."""

from __future__ import annotations

import logging
import subprocess
from os import pathsep
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from declaring import declare
from loading_process import await_true
from penstock.backfill.request import ByOffsets, Span
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.load.mirror import mirror_positions
from penstock.load.plan import plan_load
from penstock_stack.jars import find_jars
from receiving import refused_port

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from fix_loaders import Start
    from penstock_stack.broker import Broker


def committed(kafka: Broker, group: str, topic: str) -> dict[int, int]:
    """The offsets of a group at the broker, by partition."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    [future] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {each.partition: each.offset for each in future.result(60).topic_partitions if each.topic == topic}


def commit(kafka: Broker, group: str, topic: str, offset: int) -> None:
    """Commit an offset of partition 0 by hand."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    request = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])]
    [future] = admin.alter_consumer_group_offsets(request).values()
    future.result(60)


def test_the_group_has_the_positions_after_loads_a_rollback_and_a_replay(kafka: Broker, start: Start) -> None:
    account, loader = start(2, mirror_group="lag_1")
    account.send_orders(100, partition=0)
    account.transact([b'{"id": 1}'], commit=True, partition=1)

    def positions() -> dict[int, int]:
        return dict(loader.query("select partition, position from penstock.positions"))

    load = loader.load()
    assert committed(kafka, "lag_1", account.topic) == positions() == {0: 100, 1: 2}
    account.send_orders(50, partition=0, first=100)
    assert committed(kafka, "lag_1", account.topic) == {0: 100, 1: 2}
    roll_back(loader.db, load, "tester", "a test")
    assert committed(kafka, "lag_1", account.topic) == positions() == {0: 100, 1: 2}
    undo_rollback(loader.db, load, "tester", "a test")
    loader.load()
    loader.backfill(ByOffsets((Span(0, 10, 20),)), replace=True)
    assert committed(kafka, "lag_1", account.topic) == positions() == {0: 150, 1: 2}


def test_kafkas_own_tool_shows_the_lag_of_the_group(kafka: Broker, start: Start) -> None:
    account, loader = start(2, mirror_group="lag_tool")
    account.send_orders(10, partition=0)
    loader.load()
    account.send_orders(3, partition=0, first=10)
    account.send_orders(2, partition=1, first=13)

    described = subprocess.run(
        [
            "java", "-Dorg.apache.logging.log4j.level=OFF", "-Xmx256m", "-XX:TieredStopAtLevel=1",
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            "--bootstrap-server", kafka.bootstrap, "--describe", "--group", "lag_tool",
        ],
        env={"CLASSPATH": pathsep.join(str(jar) for jar in find_jars("broker")), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip

    lines = [line.split() for line in described.splitlines() if line.startswith("lag_tool")]
    assert sorted(line[1:6] for line in lines) == [
        [account.topic, "0", "10", "13", "3"],
        [account.topic, "1", "0", "2", "2"],
    ]


def test_no_group_is_written_unless_one_is_declared(kafka: Broker, start: Start) -> None:
    account, loader = start(1)
    account.send_orders(1)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    before = {each.group_id for each in admin.list_consumer_groups().result(60).valid}
    loader.load()
    # The broker deletes empty groups of other tests at its own times.
    assert {each.group_id for each in admin.list_consumer_groups().result(60).valid} <= before


def test_the_offsets_of_the_group_are_never_read(kafka: Broker, start: Start) -> None:
    account, loader = start(1, mirror_group="lag_2")
    account.send_orders(10)
    commit(kafka, "lag_2", account.topic, 7)

    loader.load()
    assert len(loader.rows()) == 10
    commit(kafka, "lag_2", account.topic, 3)
    account.send_orders(1, first=10)
    loader.load()

    assert [offset for _, offset, *_ in loader.rows()] == list(range(11))
    assert committed(kafka, "lag_2", account.topic) == {0: 11}


def test_a_run_with_nothing_new_commits_the_positions_again(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    pipeline = declare(make_topic(2), mirror_group="lag_3")

    assert plan_load(db, {"bootstrap.servers": kafka.bootstrap}, pipeline, "run").load is None

    assert committed(kafka, "lag_3", pipeline.topic) == {0: 0, 1: 0}


def test_a_group_with_members_is_left_as_it_is_and_the_log_says_so(
    kafka: Broker, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    account, loader = start(1, mirror_group="taken")
    account.send_orders(10)
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "taken", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        consumer.subscribe([account.topic])
        await_true(lambda: bool(consumer.poll(0.1) or consumer.assignment()), "the consumer has its partitions")
        with caplog.at_level(logging.WARNING, "penstock"):
            loader.load()
    finally:
        consumer.close()

    assert len(loader.rows()) == 10
    assert committed(kafka, "taken", account.topic) == {}
    [line] = [each for each in caplog.messages if "consumer group" in each]
    assert "its positions are not in the consumer group taken: the group has members" in line


def test_a_broker_that_does_not_answer_costs_a_line_in_the_log(
    db: str, kafka: Broker, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = declare(make_topic(1), mirror_group="lag_4")
    plan_load(db, {"bootstrap.servers": kafka.bootstrap}, pipeline, "run")

    with caplog.at_level(logging.WARNING, "penstock"):
        mirror_positions(db, {"bootstrap.servers": f"127.0.0.1:{refused_port()}"}, pipeline)

    [line] = caplog.messages
    assert "orders: its positions are not in the consumer group lag_4: " in line
