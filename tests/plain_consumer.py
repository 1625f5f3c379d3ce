"""A plain consumer, as many people write it: an hourly job that polls to the end of its partitions."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message


def open_consumer(bootstrap: str, group: str, **settings: Any) -> Consumer:
    """A consumer whose offsets are committed by hand; settings are written with underscores."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def read_to_end(consumer: Consumer, seconds: float = 200) -> list[Message]:
    """Poll until every partition that the consumer has been given is at its end; errors are raised."""
    records: list[Message] = []
    ended: set[int] = set()
    deadline = time.monotonic() + seconds
    while not ended or not ended >= {each.partition for each in consumer.assignment()}:
        assert time.monotonic() < deadline, f"the consumer did not reach the end in {seconds} s"
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() is None:
            records.append(message)
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            raise KafkaException(message.error())
    return records


def run_hourly(bootstrap: str, topic: str, group: str, **settings: Any) -> list[int]:
    """One run of the job: subscribe, read to the end, commit, and return the ids."""
    consumer = open_consumer(bootstrap, group, **settings)
    try:
        consumer.subscribe([topic])
        records = read_to_end(consumer)
        if records:  # the client raises an error if it has no offset to commit
            consumer.commit(asynchronous=False)
        return read_ids(records)
    finally:
        consumer.close()


def read_ids(records: Iterable[Message]) -> list[int]:
    """The ids of the orders in these records."""
    return [json.loads(record.value())["id"] for record in records]
