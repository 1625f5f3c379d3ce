"""The shared services work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker
    from penstock_stack.postgres import Postgres


def test_committed_row_survives_a_kill_of_the_server(postgres: Postgres) -> None:
    uri = postgres.create_database("survivor")
    with psycopg.connect(uri) as conn:
        conn.execute("create table kept (n int)")
        conn.execute("insert into kept values (7)")
    postgres.kill()
    assert not postgres.pids()
    postgres.start()
    with psycopg.connect(uri) as conn:
        assert conn.execute("select n from kept").fetchone() == (7,)
    postgres.drop_database("survivor")


def test_topic_has_its_partitions_and_settings(kafka: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic(3, cleanup_policy="compact")
    found = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(topic, timeout=10).topics[topic]
    assert len(found.partitions) == 3


def test_acknowledged_record_survives_a_kill_of_the_broker(kafka: Broker, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, b"kept")
    assert producer.flush(30) == 0
    del producer
    kafka.kill()
    assert not kafka.pids()
    kafka.start()
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    record = consumer.poll(30)
    consumer.close()
    assert record is not None
    assert record.value() == b"kept"
