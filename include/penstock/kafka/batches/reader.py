"""The second reader: kafka-python, which shares no code with librdkafka or Java's client.

Its consumer hides markers and aborted records as theirs do. So Fetch requests are sent by hand, and the batches that
come are taken apart here. Nothing is committed and no group is joined.
"""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.protocol.consumer.offsets import OffsetSpec
from kafka.structs import TopicPartition

from penstock import advice
from penstock.errors import KafkaError
from penstock.kafka.admin import ANSWER_SECONDS
from penstock.kafka.batches.client_settings import translate_settings
from penstock.kafka.batches.fetch import FIRST_BYTES, MOST_BYTES, ONE_BATCH, ask_for
from penstock.kafka.batches.record_batch import Aborted, Batch, describe_batches, split_batches
from penstock.kafka.batches.spans import Span, tile_spans
from penstock.waiting import attempts, retry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from kafka.protocol.consumer.fetch import FetchRequest

    from penstock.model.log import Isolation, TopicLog

# The client logs every try to connect. Without a handler of the program's own, Python would print that to stderr.
logging.getLogger("kafka").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Answer:
    """What a leader sent from an offset on."""

    sent: bytes
    aborted: tuple[Aborted, ...]
    end: int  # at the isolation level asked for
    last_stable: int
    throttled: bool


@dataclass(frozen=True, slots=True)
class _Looked:
    """Where the last answer reached, and how much was asked for."""

    partition: int
    from_offset: int
    until_offset: int
    size: int

    @property
    def reach(self) -> int:
        """Up to where a next answer of the same size would come."""
        return 2 * self.until_offset - self.from_offset


class SecondReader:
    """A connection to the cluster, for as long as the block runs."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        limits = {"request_timeout_ms": ANSWER_SECONDS * 1000, "bootstrap_timeout_ms": ANSWER_SECONDS * 1000}
        self.admin = _connect(limits | translate_settings(settings))
        self._leaders: dict[TopicPartition, int] = {}
        self._last: _Looked | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admin.close()

    def look(self, log: TopicLog, partition: int, offset: int, isolation: Isolation) -> list[Span]:
        """Say what the log holds from an offset on, without a gap, for as far as one answer goes; empty at its end."""
        place, size = TopicPartition(log.topic, partition), self._find_size(partition, offset)
        answer = self._fetch_records(place, ask_for(place, offset, isolation, size, log.topic_id))
        if answer is None:
            start = self.find_log_start(place)
            return [Span(offset, start, "gone")] if start > offset else []
        spans = _describe(answer, place)
        until = spans[-1].until_offset if spans else answer.end
        self._last = _Looked(partition, offset, until, size)
        return list(tile_spans(spans, offset, until))

    def read_batch(self, place: TopicPartition, offset: int) -> tuple[Batch | None, int]:
        """Read the header of the batch at an offset, decided or not; and the last stable offset."""
        answer = self.fetch(place, ask_for(place, offset, "read_uncommitted", ONE_BATCH))
        if answer is None:
            return None, offset
        first = next(split_batches(answer.sent), None)
        return (first if isinstance(first, Batch) else None), answer.last_stable

    def is_compacted(self, topic: str) -> bool | None:
        """Ask whether a topic is compacted; None if Kafka does not tell."""
        try:
            told = self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
        except errors.KafkaError:
            return None
        policy = told.get("topic", {}).get(topic, {}).get("cleanup.policy")
        return None if policy is None else "compact" in policy["value"]

    def find_log_start(self, place: TopicPartition) -> int:
        """Ask where the log of a partition starts now."""
        try:
            return int(self.admin.list_partition_offsets({place: OffsetSpec.EARLIEST})[place].offset)
        except errors.KafkaError as error:
            _fail(f"where {_name(place)} starts", error)

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
            _fail(f"fetching {_name(place)}", error)

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
        raise _unanswered(f"fetching {_name(place)}", "a quota is used up")

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

    def _find_size(self, partition: int, offset: int) -> int:
        """Few holes that lie far apart need a batch each; many that lie close are read past in long pieces."""
        last = self._last
        if last is None or last.partition != partition or not last.until_offset <= offset < last.reach:
            return FIRST_BYTES
        return min(2 * last.size, MOST_BYTES)


def _connect(settings: Mapping[str, Any]) -> KafkaAdminClient:
    """Connect; a client that could not is closed, with the thread that it has begun."""
    admin = KafkaAdminClient.__new__(KafkaAdminClient)
    try:
        admin.__init__(**settings)
    except (errors.KafkaError, RuntimeError, ValueError, OSError) as error:
        admin._closed = not hasattr(admin, "_net")
        admin.close()
        _fail("connecting", error)
    return admin


def _describe(answer: Answer, place: TopicPartition) -> list[Span]:
    try:
        spans = list(describe_batches(answer.sent, answer.aborted))
    except (errors.KafkaError, ValueError, IndexError, OSError, EOFError, zlib.error) as error:
        _fail(f"fetching {_name(place)}", f"a batch came that cannot be read ({error})")
    if answer.sent and not spans:
        # Taken for nothing, it would make every offset from here on a hole that nothing explains.
        _fail(f"fetching {_name(place)}", "what came is no whole batch")
    return spans


def _raise(code: int) -> None:
    if code:
        raise errors.for_code(code)


def _name(place: TopicPartition) -> str:
    return f"topic {place.topic} partition {place.partition}"


def _fail(asked: str, reason: Exception | str) -> NoReturn:
    raise _unanswered(asked, reason) from (reason if isinstance(reason, Exception) else None)


def _unanswered(asked: str, reason: Exception | str) -> KafkaError:
    return KafkaError(
        f"Kafka, asked by the second reader of holes ({asked}), did not answer: {reason}.",
        next_step=advice.CHECK_BROKERS_AND_RIGHTS,
    )
