"""Fetch requests."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING

from kafka.protocol.consumer.fetch import FetchRequest

if TYPE_CHECKING:
    from kafka.structs import TopicPartition

    from penstock.model.log import Isolation

LEVELS: dict[Isolation, int] = {"read_uncommitted": 0, "read_committed": 1}
FIRST_BYTES, MOST_BYTES = 64 * 1024, 8 * 1024 * 1024
ONE_BATCH = 1  # a broker sends the first batch whole, however little is asked for
# The first version of Fetch with isolation, the last that names a topic by its name, the first that does by its id.
ISOLATED, BY_NAME, BY_ID = 4, 12, 13
WAIT_MILLISECONDS = 200


def ask_for(
    place: TopicPartition, offset: int, isolation: Isolation, size: int, topic_id: str | None = None
) -> FetchRequest:
    """Make a request. One that names the topic by its id is refused when the topic has been created again."""
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=place.partition, fetch_offset=offset, partition_max_bytes=size
    )
    topic = FetchRequest.FetchTopic(topic=place.topic, topic_id=_read_id(topic_id), partitions=[partition])
    return FetchRequest(
        max_wait_ms=WAIT_MILLISECONDS,
        min_bytes=1,
        max_bytes=size,
        isolation_level=LEVELS[isolation],
        topics=[topic],
        min_version=ISOLATED,
        max_version=BY_NAME if topic_id is None else BY_ID,
    )


def _read_id(topic_id: str | None) -> uuid.UUID | None:
    """The id of a topic is written as 16 bytes in URL-safe base 64, without padding."""
    return None if topic_id is None else uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))
