"""How old the oldest record is that a pipeline has not loaded yet."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.kafka import Isolation

# A first record of each partition is all that is wanted: small fetches, no waiting for more.
FIRST_RECORD_ONLY = {
    "group.id": "penstock-lag",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 50,
    "fetch.message.max.bytes": 16384,
    "log_level": 3,
}


def read_first_timestamps(
    settings: Mapping[str, str], topic: str, positions: Mapping[int, int], isolation: Isolation, seconds: float = 5.0
) -> dict[int, int]:
    """Read the timestamp (ms) of the first visible record from each position on; partitions without one are left out.

    What has not answered in time is left out too: a status that is late is worth less than one that says less.
    """
    if not positions:
        return {}
    consumer = Consumer({**FIRST_RECORD_ONLY, "isolation.level": isolation, **settings})
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in positions.items()])
    waiting, found = set(positions), dict[int, int]()
    deadline = time.monotonic() + seconds
    try:
        while waiting and time.monotonic() < deadline:
            heard = set()
            for message in consumer.consume(len(waiting), timeout=0.1):
                heard.add(message.partition())
                kind, timestamp = message.timestamp()
                if message.error() is None and kind != TIMESTAMP_NOT_AVAILABLE:
                    found.setdefault(message.partition(), timestamp)
            # A partition that has answered would otherwise fill the queue before the others come in.
            consumer.incremental_unassign([TopicPartition(topic, partition) for partition in heard & waiting])
            waiting -= heard
    finally:
        consumer.close()
    return found
