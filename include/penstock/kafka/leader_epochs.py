"""Finding a log that was cut below a position and has grown past it again: other records stand there now.

Offsets alone do not show it. But Kafka numbers the leaders that a partition has had (epochs), and a leader can be asked
where its log of an epoch ends (KIP-320). What lay below a position when it was planned is of the epoch of then or of an
earlier one; if the log of that epoch ends below the position, the rest was cut off.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError as Code
from confluent_kafka import TopicPartition

from penstock.errors import KafkaError
from penstock.kafka.admin import ANSWER_SECONDS, limit_replies
from penstock.kafka.readers.contract import Source
from penstock.kafka.readers.native import open_consumer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer

# The client tells the offset in words only.
CUT = re.compile(r"broker end offset is (\d+)")
TRUNCATED = {Code._AUTO_OFFSET_RESET, Code._LOG_TRUNCATION}
# The records themselves are not wanted.
LEAST = {"log_level": "0", "fetch.message.max.bytes": "1024", "queued.min.messages": "1"}


def find_cuts(settings: Mapping[str, str], topic: str, positions: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Ask where the log was cut, by partition, below these offsets with their epochs; those in order are left out."""
    if not positions:
        return {}
    consumer = open_consumer(Source({**limit_replies(), **settings, **LEAST}, topic, "read_uncommitted"))
    try:
        # A consumer that is given an offset with its epoch asks the leader before it fetches.
        consumer.assign(
            [TopicPartition(topic, number, offset, leader_epoch=epoch) for number, (offset, epoch) in positions.items()]
        )
        return _await_answers(consumer, topic, positions)
    finally:
        consumer.close()


def _await_answers(consumer: Consumer, topic: str, positions: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    left = set(positions)
    cuts: dict[int, int] = {}
    deadline = time.monotonic() + ANSWER_SECONDS
    while left:
        message = consumer.poll(0.1)
        error = message and message.error()
        if message and (error is None or error.code() in (*TRUNCATED, Code._PARTITION_EOF)):
            left.discard(message.partition())
            cut = _read_cut(topic, error.str()) if error is not None and error.code() in TRUNCATED else None
            if cut is not None and cut < positions[message.partition()][0]:
                cuts[message.partition()] = cut
        elif left and time.monotonic() > deadline:
            raise KafkaError(
                f"topic {topic}: Kafka, asked whether the log is still the one that was loaded, did not answer for "
                f"partitions {sorted(left)}{f': {error.str()}' if error else ''}.",
                next_step="check that the brokers run and can be reached.",
            )
    return cuts


def _read_cut(topic: str, told: str) -> int:
    found = CUT.search(told)
    if found is None:
        # Rather stopped for nothing than gone on over a log that is not the one that was loaded.
        raise KafkaError(
            f"topic {topic}: the log seems to have been cut below the position, and the client says no offset: {told}",
            next_step="find out what happened to the topic; a newer client may word it in another way (report that).",
        )
    return int(found[1])
