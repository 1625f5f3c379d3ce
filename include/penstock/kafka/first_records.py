"""How old the oldest record is that a pipeline has not loaded yet."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, TopicPartition

from penstock.kafka.admin import QUIET, limit_replies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Message

    from penstock.model.log import Isolation

# A first record of each partition is all that is wanted: small fetches, no waiting for more.
FIRST_RECORD_ONLY = {
    "group.id": "penstock-lag",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 50,
    "fetch.message.max.bytes": 16384,
    **QUIET,
}


@dataclass(frozen=True, slots=True)
class First:
    """The first visible record from an offset on; `timestamp` (ms) is None if the record carries none."""

    offset: int
    timestamp: int | None


def read_first_timestamps(
    settings: Mapping[str, str], topic: str, positions: Mapping[int, int], isolation: Isolation, seconds: float = 5.0
) -> dict[int, int]:
    """Read the timestamp (ms) of the first visible record from each position on; partitions without one are left out.

    What has not answered in time is left out too: a status that is late is worth less than one that says less.
    """
    found = read_first_records(settings, topic, positions, isolation, seconds)
    return {
        partition: first.timestamp for partition, first in found.items() if first and first.timestamp is not None
    }  # fmt: skip


def read_first_records(
    settings: Mapping[str, str], topic: str, positions: Mapping[int, int], isolation: Isolation, seconds: float = 5.0
) -> dict[int, First | None]:
    """Read the first visible record from each position on: None if there is none, no key if nothing came in time."""
    if not positions:
        return {}
    consumer = Consumer({**limit_replies(), **FIRST_RECORD_ONLY, "isolation.level": isolation, **settings})
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in positions.items()])
    waiting, found = set(positions), dict[int, First | None]()
    deadline = time.monotonic() + seconds
    try:
        while waiting and time.monotonic() < deadline:
            heard = set()
            for message in consumer.consume(len(waiting), timeout=0.1):
                heard.add(message.partition())
                _note(message, found)
            # A partition that has answered would otherwise fill the queue before the others come in.
            consumer.incremental_unassign([TopicPartition(topic, partition) for partition in heard & waiting])
            waiting -= heard
    finally:
        consumer.close()
    return found


def _note(message: Message, found: dict[int, First | None]) -> None:
    error = message.error()
    if error is None:
        kind, timestamp = message.timestamp()
        first = First(message.offset(), None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp)
        found.setdefault(message.partition(), first)
    elif error.code() == KafkaError._PARTITION_EOF:
        found.setdefault(message.partition(), None)
