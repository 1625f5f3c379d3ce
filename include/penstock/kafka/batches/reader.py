"""The second reader: kafka-python, which shares no code with librdkafka or with Java's client.

The consumer of kafka-python hides markers and aborted records too. So this reader sends Fetch requests itself, and
decodes the batches of the answers. It commits nothing and joins no group.
"""

from __future__ import annotations

import base64
import logging
import uuid
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.offsets import OffsetSpec
from kafka.structs import TopicPartition

from penstock import advice
from penstock.errors import KafkaError
from penstock.kafka.admin import ANSWER_SECONDS
from penstock.kafka.batches.record_batch import Aborted, Batch, describe_batches, split_batches
from penstock.kafka.client_settings import translate_for_kafka_python
from penstock.model.log import Span, tile_spans
from penstock.waiting import attempts, retry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from penstock.model.log import Isolation, TopicLog

LEVELS: dict[Isolation, int] = {"read_uncommitted": 0, "read_committed": 1}
FIRST_BYTES, MOST_BYTES = 64 * 1024, 8 * 1024 * 1024
ONE_BATCH = 1  # a broker sends the first batch whole, even if one byte is requested
# Versions of Fetch: the first with isolation, the last that names a topic by its name, the first that uses its id.
ISOLATED, BY_NAME, BY_ID = 4, 12, 13
WAIT_MILLISECONDS = 200
# The client logs every attempt to connect. Without a handler of the program's own, Python would print that to stderr.
logging.getLogger("kafka").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Answer:
    """The bytes that a leader sent from an offset on."""

    sent: bytes
    aborted: tuple[Aborted, ...]
    end: int  # at the requested isolation level
    last_stable: int
    throttled: bool


@dataclass(frozen=True, slots=True)
class _LastRead:
    """The offsets that the last answer covered, and the size that was requested."""

    partition: int
    from_offset: int
    until_offset: int
    size: int

    @property
    def reach(self) -> int:
        """The offset up to which the next answer of the same size would reach."""
        return 2 * self.until_offset - self.from_offset


class SecondReader:
    """A connection to the cluster, closed at the end of its block."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        limits = {"request_timeout_ms": ANSWER_SECONDS * 1000, "bootstrap_timeout_ms": ANSWER_SECONDS * 1000}
        self.admin = _connect(limits | translate_for_kafka_python(settings))
        self._leaders: dict[TopicPartition, int] = {}
        self._last: _LastRead | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admin.close()

    def read_spans(self, log: TopicLog, partition: int, offset: int, isolation: Isolation) -> list[Span]:
        """Describe the log from an offset on, without a gap, as far as one answer reaches; empty at the log's end."""
        place, size = TopicPartition(log.topic, partition), self._choose_size(partition, offset)
        answer = self._fetch_records(place, make_request(place, offset, isolation, size, log.topic_id))
        if answer is None:
            start = self.find_log_start(place)
            return [Span(offset, start, "gone")] if start > offset else []
        spans = _describe(answer, place)
        until = spans[-1].until_offset if spans else answer.end
        self._last = _LastRead(partition, offset, until, size)
        return list(tile_spans(spans, offset, until))

    def read_batch(self, place: TopicPartition, offset: int) -> tuple[Batch | None, int]:
        """Read the header of the batch at an offset, in an open transaction too, and the last stable offset."""
        answer = self.fetch(place, make_request(place, offset, "read_uncommitted", ONE_BATCH))
        if answer is None:
            return None, offset
        first = next(split_batches(answer.sent), None)
        return (first if isinstance(first, Batch) else None), answer.last_stable

    def is_compacted(self, topic: str) -> bool | None:
        """Read whether a topic is compacted; None if Kafka does not show its configuration."""
        try:
            found = self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
        except errors.KafkaError:
            return None
        policy = found.get("topic", {}).get(topic, {}).get("cleanup.policy")
        return None if policy is None else "compact" in policy["value"]

    def find_log_start(self, place: TopicPartition) -> int:
        """Read where the log of a partition starts now."""
        try:
            return int(self.admin.list_partition_offsets({place: OffsetSpec.EARLIEST})[place].offset)
        except errors.KafkaError as error:
            _fail(f"the log start of {_name(place)}", error)

    def fetch(self, place: TopicPartition, request: FetchRequest) -> Answer | None:
        """Fetch from the partition's leader, again while it changes; None if the log has no such offset."""
        try:
            return retry(
                lambda: self._fetch_once(place, request),
                on=errors.KafkaError,
                seconds=ANSWER_SECONDS,
                give_up=lambda error: not error.retriable,
            )
        except errors.KafkaError as error:
            _fail(f"records of {_name(place)}", error)

    def _fetch_once(self, place: TopicPartition, request: FetchRequest) -> Answer | None:
        try:
            return self.admin._manager.run(self._fetch, place, request)  # type: ignore[no-any-return]
        except errors.OffsetOutOfRangeError:
            return None
        except errors.KafkaError:
            self._leaders.clear()
            raise

    def _fetch_records(self, place: TopicPartition, request: FetchRequest) -> Answer | None:
        """Fetch. An empty answer is returned only if the second one is empty too."""
        first = self._fetch_unthrottled(place, request)
        return first if first is None or first.sent else self._fetch_unthrottled(place, request)

    def _fetch_unthrottled(self, place: TopicPartition, request: FetchRequest) -> Answer | None:
        """Fetch, again while the answer is empty because a quota is used up."""
        for _ in attempts(seconds=ANSWER_SECONDS):
            answer = self.fetch(place, request)
            if answer is None or answer.sent or not answer.throttled:
                return answer
        raise _unanswered(f"records of {_name(place)}", "a quota is used up")

    async def _fetch(self, place: TopicPartition, request: FetchRequest) -> Answer:
        if place not in self._leaders:
            led = await self.admin._async_get_leader_for_partitions([place])
            self._leaders |= {each: leader for leader, places in led.items() for each in places}
        response = await self.admin._manager.send(request, node_id=self._leaders[place])
        _raise(response.error_code)
        (topic,) = response.responses
        (found,) = topic.partitions
        _raise(found.error_code)
        listed = found.aborted_transactions or ()
        return Answer(
            sent=bytes(found.records or b""),
            aborted=tuple(Aborted(each.producer_id, each.first_offset) for each in listed),
            end=found.last_stable_offset if request.isolation_level else found.high_watermark,
            last_stable=found.last_stable_offset,
            throttled=response.throttle_time_ms > 0,
        )

    def _choose_size(self, partition: int, offset: int) -> int:
        """Small fetches for few holes that are far apart; growing fetches for many holes that are close together."""
        last = self._last
        if last is None or last.partition != partition or not last.until_offset <= offset < last.reach:
            return FIRST_BYTES
        return min(2 * last.size, MOST_BYTES)


def make_request(
    place: TopicPartition, offset: int, isolation: Isolation, size: int, topic_id: str | None = None
) -> FetchRequest:
    """Make a Fetch request. With the topic's id, Kafka refuses it if the topic has been created again."""
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
    """Kafka writes the id of a topic as 16 bytes in URL-safe base 64, without padding."""
    return None if topic_id is None else uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))


def _connect(settings: Mapping[str, Any]) -> KafkaAdminClient:
    """Connect. A client that fails to connect is closed, so that its thread ends."""
    admin = KafkaAdminClient.__new__(KafkaAdminClient)
    try:
        admin.__init__(**settings)
    except (errors.KafkaError, RuntimeError, ValueError, OSError) as error:
        admin._closed = not hasattr(admin, "_net")
        admin.close()
        _fail("a connection", error)
    return admin


def _describe(answer: Answer, place: TopicPartition) -> list[Span]:
    try:
        spans = list(describe_batches(answer.sent, answer.aborted))
    except (errors.KafkaError, ValueError, IndexError, OSError, EOFError, zlib.error) as error:
        _fail(f"records of {_name(place)}", f"a batch of the answer cannot be read ({error})")
    if answer.sent and not spans:
        # Read as an empty answer, it would make every offset from here on an unexplained hole.
        _fail(f"records of {_name(place)}", "the answer holds no whole batch")
    return spans


def _raise(code: int) -> None:
    if code:
        raise errors.for_code(code)


def _name(place: TopicPartition) -> str:
    return f"topic {place.topic} partition {place.partition}"


def _fail(request: str, reason: Exception | str) -> NoReturn:
    raise _unanswered(request, reason) from (reason if isinstance(reason, Exception) else None)


def _unanswered(request: str, reason: Exception | str) -> KafkaError:
    return KafkaError(
        f"Kafka did not answer the request of the second reader for {request}: {reason}.",
        next_step=advice.CHECK_BROKERS_AND_RIGHTS,
    )
