"""The first visible record from an offset on, and its timestamp: how old the oldest record is that is not loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, TopicPartition

from penstock.kafka.admin import QUIET, limit_replies, refusing_settings
from penstock.waiting import attempts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Message

    from penstock.model.log import Isolation

# Only the first record of each partition is needed: small fetches, and no waiting for more.
FIRST_RECORD_ONLY = {
    "group.id": "penstock-lag",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 50,
    "fetch.message.max.bytes": 16384,
    **QUIET,
}


Place = tuple[str, int]  # a topic and a partition


@dataclass(frozen=True, slots=True)
class First:
    """The first visible record from an offset on; `timestamp` (ms) is None if the record has none."""

    offset: int
    timestamp: int | None


def read_first_timestamps(
    settings: Mapping[str, str], topic: str, positions: Mapping[int, int], isolation: Isolation, seconds: float = 5.0
) -> dict[int, int]:
    """Read the timestamp (ms) of the first visible record from each position on.

    Partitions without a record and partitions that did not answer in time are left out: a status page that is late is
    worth less than one with a missing number.
    """
    found = read_first_records(settings, topic, positions, isolation, seconds)
    return {
        partition: first.timestamp for partition, first in found.items() if first and first.timestamp is not None
    }  # fmt: skip


def read_first_records(
    settings: Mapping[str, str], topic: str, positions: Mapping[int, int], isolation: Isolation, seconds: float = 5.0
) -> dict[int, First | None]:
    """Read the first visible record from each position on: None if there is none, no key without an answer in time."""
    places = {(topic, partition): offset for partition, offset in positions.items()}
    found = read_first_of_topics(settings, places, isolation, seconds)
    return {partition: first for (_, partition), first in found.items()}


def read_first_of_topics(
    settings: Mapping[str, str], positions: Mapping[Place, int], isolation: Isolation, seconds: float = 5.0
) -> dict[Place, First | None]:
    """Read the same for the partitions of several topics, by one consumer."""
    if not positions:
        return {}
    with refusing_settings():
        consumer = Consumer({**limit_replies(), **FIRST_RECORD_ONLY, "isolation.level": isolation, **settings})
    consumer.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()])
    waiting, found = set(positions), dict[Place, First | None]()
    try:
        for _ in attempts(seconds=seconds, every=0):
            answered = set()
            for message in consumer.consume(len(waiting), timeout=0.1):
                answered.add((message.topic(), message.partition()))
                _note(message, found)
            # Without this, partitions that have answered fill the queue before the others answer.
            consumer.incremental_unassign([TopicPartition(*place) for place in answered & waiting])
            waiting -= answered
            if not waiting:
                break
    finally:
        consumer.close()
    return found


def _note(message: Message, found: dict[Place, First | None]) -> None:
    error, place = message.error(), (message.topic(), message.partition())
    if error is None:
        kind, timestamp = message.timestamp()
        first = First(message.offset(), None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp)
        found.setdefault(place, first)
    elif error.code() == KafkaError._PARTITION_EOF:
        found.setdefault(place, None)
