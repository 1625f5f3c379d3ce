"""Filling the topic: each process produces some of the partitions, in order."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import repeat

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.records import PARTITIONS, make_value, name_topic
from penstock.errors import PenstockError
from penstock_stack.processes import await_condition

# Idempotence keeps the order, and leaves no record twice after a retry.
SETTINGS: dict[str, str | int | bool] = {
    "enable.idempotence": True,
    "log_level": 3,  # hides the message that a fresh broker needs two requests for a producer id
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "batch.num.messages": 20_000,
    "queue.buffering.max.messages": 300_000,
}


def fill_topic(bootstrap: str, records: int, *, keyed: bool = False) -> str:
    """Make sure that the topic of so many records exists and is full; a full topic is used again."""
    if records % PARTITIONS:
        raise PenstockError(f"{records} records do not spread evenly over {PARTITIONS} partitions.")
    topic = name_topic(records, keyed=keyed)
    wanted = [(0, records // PARTITIONS)] * PARTITIONS
    if read_ends(bootstrap, topic) == wanted:
        return topic
    _recreate(bootstrap, topic)
    workers = min(PARTITIONS, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        each = records // PARTITIONS
        list(pool.map(produce, repeat(bootstrap), repeat(topic), range(PARTITIONS), repeat(each), repeat(keyed)))
    if read_ends(bootstrap, topic) != wanted:
        raise PenstockError(f"topic {topic} holds {read_ends(bootstrap, topic)} where {wanted} were produced.")
    return topic


def produce(bootstrap: str, topic: str, partition: int, count: int, keyed: bool = False) -> None:
    """Produce all records of one partition, and wait until the broker has them."""
    producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS})
    for offset in range(count):
        value = make_value(offset * PARTITIONS + partition, keyed=keyed)
        while True:
            try:
                producer.produce(topic, value, partition=partition)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise PenstockError(f"partition {partition} of {topic}: not all records were acknowledged in time.")


def read_ends(bootstrap: str, topic: str) -> list[tuple[int, int]]:
    """The log start and end of each partition; nothing if there is no such topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
    try:
        if topic not in consumer.list_topics(timeout=15).topics:
            return []
        return _read_each(consumer, topic)
    finally:
        consumer.close()


def _read_each(consumer: Consumer, topic: str) -> list[tuple[int, int]]:
    ends: list[tuple[int, int]] = []

    def read_all_ends() -> bool:
        # A broker that has just started leads its partitions only after a moment.
        with suppress(KafkaException):
            ends[:] = [
                consumer.get_watermark_offsets(TopicPartition(topic, number), 15) for number in range(PARTITIONS)
            ]
        return bool(ends)

    await_condition(read_all_ends, 60, f"the ends of {topic} are known")
    return ends


def _recreate(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if topic in admin.list_topics(timeout=15).topics:
        admin.delete_topics([topic])[topic].result(timeout=30)

    def created() -> bool:
        # A topic that is being deleted refuses its name for a moment.
        with suppress(KafkaException):
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(timeout=30)
        known = admin.list_topics(timeout=15).topics.get(topic)
        return known is not None and len(known.partitions) == PARTITIONS and _led(admin, topic)

    await_condition(created, 60, f"topic {topic} is created")


def _led(admin: AdminClient, topic: str) -> bool:
    known = admin.list_topics(topic, timeout=15).topics[topic]
    return all(partition.leader >= 0 for partition in known.partitions.values())
