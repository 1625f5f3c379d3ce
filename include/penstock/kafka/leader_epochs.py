"""Finding a log that was truncated below a position and has grown past it again, so that it holds other records there.

Offsets alone do not show this. But Kafka numbers the leaders that a partition has had (epochs), and a leader reports
where its log of an epoch ends (KIP-320). Each record below a position was written in the epoch of the plan or in an
earlier epoch. If the log of that epoch ends below the position, the records from there on were truncated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError as Code
from confluent_kafka import TopicPartition

from penstock import advice
from penstock.errors import KafkaError, name_partitions
from penstock.kafka.admin import ANSWER_SECONDS, limit_replies
from penstock.kafka.readers.contract import Source
from penstock.kafka.readers.native import open_consumer
from penstock.waiting import attempts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer

# The client reports the offset only inside the text of its error.
END_OFFSET = re.compile(r"broker end offset is (\d+)")
TRUNCATED = {Code._AUTO_OFFSET_RESET, Code._LOG_TRUNCATION}
# Small fetches, because the records themselves are not needed.
SMALL_FETCHES = {"log_level": "0", "fetch.message.max.bytes": "1024", "queued.min.messages": "1"}


def find_truncations(
    settings: Mapping[str, str], topic: str, positions: Mapping[int, tuple[int, int]]
) -> dict[int, int]:
    """Find the partitions whose log was truncated below a position, and the offset from which records are missing.

    `positions` holds each position with the epoch of its leader. Partitions that were not truncated are left out.
    """
    if not positions:
        return {}
    consumer = open_consumer(Source({**limit_replies(), **settings, **SMALL_FETCHES}, topic, "read_uncommitted"))
    try:
        # A consumer that starts at an offset with an epoch validates both with the leader before its first fetch.
        consumer.assign(
            [TopicPartition(topic, number, offset, leader_epoch=epoch) for number, (offset, epoch) in positions.items()]
        )
        return _read_answers(consumer, topic, positions)
    finally:
        consumer.close()


def _read_answers(consumer: Consumer, topic: str, positions: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    waiting = set(positions)
    truncations: dict[int, int] = {}
    error = None
    for _ in attempts(seconds=ANSWER_SECONDS, every=0):
        message = consumer.poll(0.1)
        error = message and message.error()
        if message and (error is None or error.code() in (*TRUNCATED, Code._PARTITION_EOF)):
            partition = message.partition()
            waiting.discard(partition)
            if error is not None and error.code() in TRUNCATED:
                end = _read_end_offset(topic, error.str())
                if end < positions[partition][0]:
                    truncations[partition] = end
        if not waiting:
            return truncations
    raise KafkaError(
        f"topic {topic}: Kafka did not confirm that the log is still the one that was loaded, for "
        f"{name_partitions(waiting)}{f': {error.str()}' if error else ''}.",
        next_step=advice.CHECK_BROKERS,
    )


def _read_end_offset(topic: str, text: str) -> int:
    found = END_OFFSET.search(text)
    if found is None:
        # Without the offset the load stops: a false alarm is better than loading a log that was truncated.
        raise KafkaError(
            f"topic {topic}: the log seems to be truncated below the position, and the client gives no offset: {text}",
            next_step=advice.REPORT_CLIENT_TEXT,
        )
    return int(found[1])
