"""The native reader: librdkafka at explicit offsets, in the task itself."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka import KafkaError as Code

from penstock.errors import ReadError
from penstock.ranges import Range
from penstock.reading.contract import Batch, CheckedChunk, End, Headers, lost_error

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from penstock.ranges import Chunk
    from penstock.reading.contract import Source

log = logging.getLogger(__name__)

# What is fetched beyond the end of a chunk is thrown away: enough in the queue to keep the decoder busy, not more.
TUNING: dict[str, str | int] = {
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.message.max.bytes": 1_048_576,
    # A full queue stops the fetching for so long, a second by default: 500,000 records took 10.4 s, and take 0.5 s.
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
    "reconnect.backoff.max.ms": 1_000,
    "socket.keepalive.enable": "true",
    "check.crcs": "true",  # not to be measured, and a broken batch is an error
}
# No client's settings may change these: they are what makes a read explicit.
FORCED: dict[str, str | int] = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "group.id": "penstock",  # the client asks for one; nothing joins it, nothing is committed to it
}
HOPELESS = {
    Code.UNKNOWN_TOPIC_OR_PART,
    Code._UNKNOWN_TOPIC,
    Code._UNKNOWN_PARTITION,
    Code.TOPIC_AUTHORIZATION_FAILED,
    Code._AUTHENTICATION,
    Code.SASL_AUTHENTICATION_FAILED,
    Code._FATAL,
}
STALL_SECONDS = 60.0
POLL_SECONDS = 0.1
ANSWER_SECONDS = 15.0
BATCH_RECORDS = 10_000
BATCH_BYTES = 16 * 1024 * 1024


def read_chunk(source: Source, chunk: Chunk) -> Generator[Batch | End]:
    """Read one chunk with a consumer of its own: nothing that another chunk left behind can show up in it."""
    consumer = open_consumer(source)
    try:
        yield from _Reading(source, chunk.range, consumer).read()
    finally:
        consumer.close()


def open_chunk(source: Source, chunk: Chunk) -> CheckedChunk:
    """Make the checks for a chunk that the native reader reads."""
    return CheckedChunk(source, chunk, lambda: find_watermarks(source, chunk.range.partition)[0])


def open_consumer(source: Source) -> Consumer:
    """Make a consumer; settings that the client refuses are an error that does not show them."""
    forced = FORCED | {"isolation.level": source.isolation}
    try:
        return Consumer({**TUNING, **source.settings, **forced}, logger=log)
    except KafkaException as error:
        raise ReadError(
            f"the Kafka settings are refused by the client: {error.args[0].str()}.",
            next_step="mend the settings (PENSTOCK_KAFKA; in Airflow, the pipeline's Kafka connection).",
        ) from error


def find_watermarks(source: Source, partition: int) -> tuple[int, int]:
    """Ask where the log of a partition starts and ends now, at the isolation level of the source."""
    consumer = open_consumer(source)
    try:
        return _find_watermarks(consumer, source, Range(partition, 0, 0))
    finally:
        consumer.close()


def _find_watermarks(consumer: Consumer, source: Source, range_: Range) -> tuple[int, int]:
    partition = TopicPartition(source.topic, range_.partition)
    try:
        start, end = consumer.get_watermark_offsets(partition, timeout=ANSWER_SECONDS)
    except KafkaException as error:
        raise ReadError(
            f"topic {source.topic}: Kafka did not say where the log of partition {range_.partition} starts: "
            f"{error.args[0].str()}.",
            ranges=[range_] if len(range_) else [],
            next_step="check that the brokers run, then try the stage step again.",
        ) from error
    return start, end


class _Reading:
    """One pass over one range."""

    def __init__(self, source: Source, range_: Range, consumer: Consumer) -> None:
        self.source = source
        self.range = range_
        self.consumer = consumer
        self.position = range_.from_offset
        self.wanted = 500  # until the first batch tells how big records are
        self.last_error = ""
        self.progress_at = time.monotonic()

    def read(self) -> Iterator[Batch | End]:
        self.consumer.assign([TopicPartition(self.source.topic, self.range.partition, self.range.from_offset)])
        end: End | None = None
        while end is None:
            left = self.range.until_offset - self.position
            messages = self.consumer.consume(min(left, self.wanted), POLL_SECONDS)
            records, end = self._split(messages)
            if records:
                yield self._take(records)
            if self.position >= self.range.until_offset:
                end = End(self.position)
            if not messages:
                self._check_stall()
        yield end

    def _split(self, messages: list[Message]) -> tuple[list[Message], End | None]:
        """Records of the range, and the end if something among the messages marks it."""
        until = self.range.until_offset
        if messages and not any(map(Message.error, messages)) and max(map(Message.offset, messages)) < until:
            return messages, None
        records: list[Message] = []
        for message in messages:
            if message.error() is None and message.offset() < until:
                records.append(message)
                continue
            end = self._judge(message)
            if end is not None:
                return records, end
        return records, None

    def _judge(self, message: Message) -> End | None:
        """The end if this message marks it; an error that waiting cannot mend is raised."""
        error = message.error()
        if error is None:
            return End(message.offset())
        if error.code() == Code._PARTITION_EOF:
            return End(message.offset())
        if error.code() == Code._AUTO_OFFSET_RESET:
            raise self._explain_reset()
        if error.code() in HOPELESS:
            raise self._fail(error.str())
        self.last_error = error.str()
        return None

    def _take(self, messages: list[Message]) -> Batch:
        values = list(map(Message.value, messages))
        size = sum(map(len, filter(None, values))) // len(messages) + 1
        self.wanted = max(1, min(BATCH_RECORDS, BATCH_BYTES // size))
        self.position = messages[-1].offset() + 1
        self.progress_at = time.monotonic()
        return Batch(
            partition=messages[0].partition(),
            offsets=np.fromiter(map(Message.offset, messages), np.int64, len(messages)),
            timestamps=np.fromiter((moment for _, moment in map(Message.timestamp, messages)), np.int64, len(messages)),
            values=values,
            keys=list(map(Message.key, messages)),
            headers=lambda index: _headers(messages[index]),
        )

    def _check_stall(self) -> None:
        if time.monotonic() - self.progress_at > STALL_SECONDS:
            raise self._fail(f"no record for {STALL_SECONDS:.0f} s{self.last_error and ': ' + self.last_error}")

    def _explain_reset(self) -> Exception:
        start, end = _find_watermarks(self.consumer, self.source, self.range)
        if start > self.range.from_offset:
            lost = Range(self.range.partition, self.range.from_offset, min(start, self.range.until_offset))
            return lost_error(self.source.topic, lost, start)
        return self._fail(f"the log ends at offset {end}, and the range starts at {self.range.from_offset}")

    def _fail(self, what: str) -> ReadError:
        return ReadError(
            f"topic {self.source.topic}: reading stopped at offset {self.position}: {what}.",
            ranges=[self.range],
            next_step="check that the brokers run and that the topic is there, then try the stage step again.",
        )


def _headers(message: Message) -> Headers:
    try:
        found: list[tuple[str, Any]] | None = message.headers()
    except UnicodeDecodeError:  # the name of a header may be any bytes
        return [("headers whose names are no UTF-8", None)]
    return [(name, value) for name, value in found or []]
