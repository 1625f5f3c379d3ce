"""The native reader: librdkafka at explicit offsets, in the task itself."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka import KafkaError as Code

from penstock import advice
from penstock.errors import PenstockError, ReadError
from penstock.kafka.admin import refusing_settings
from penstock.kafka.readers.contract import CheckedChunks, End, OpenGroup, lost_error
from penstock.model.ranges import Range, split_passes
from penstock.model.records import Batch, Headers
from penstock.spark.error_transport import TaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.kafka.readers.contract import DecodeGroup, Part, Source, StageGroup
    from penstock.model.ranges import Chunk

log = logging.getLogger(__name__)

# Records fetched beyond the end of a chunk are discarded, so the queue is only long enough to keep the decoder busy.
TUNING: dict[str, str | int] = {
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.message.max.bytes": 1_048_576,
    # Fetching pauses for this time after the queue was full. With the default, a second, 500,000 records took 10.4 s;
    # with 10 ms they take 0.5 s.
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
    "reconnect.backoff.max.ms": 1_000,
    "socket.keepalive.enable": "true",
    "check.crcs": "true",  # its cost is too small to measure, and a broken batch becomes an error
}
# Settings of the user cannot change these: they make a read explicit.
FORCED: dict[str, str | int] = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "group.id": "penstock",  # the client requires a group; nothing joins it, and nothing is committed to it
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


class NativeReader:
    """Reads inside the Spark task, so that it can read a group a second time."""

    def stage_groups(
        self, context: SparkContext, source: Source, groups: Sequence[Sequence[Chunk]], stage: StageGroup
    ) -> list[tuple[int, bool]]:
        """Stage each group by a Spark task of its own."""
        # An RDD of numbers, because a DataFrame would start the SQL engine, which takes 2 to 3 CPU seconds.
        numbers = context.parallelize(range(len(groups)), len(groups))
        return list(numbers.mapPartitions(_make_task(source, groups, stage)).collect())

    def open_frame(
        self,
        session: SparkSession,
        source: Source,
        groups: Sequence[Sequence[Chunk]],
        decode: DecodeGroup,
        schema: StructType,
    ) -> DataFrame:
        """Open the groups as a DataFrame, each in a partition of its own."""

        def run(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in (number for part in parts for number in part["id"].to_pylist()):
                try:
                    yield from decode(groups[number], open_group(source, groups[number]))
                except PenstockError as error:
                    raise TaskError(error) from None

        return session.range(0, len(groups), 1, len(groups)).mapInArrow(run, schema)

    def confirm_holes(self, source: Source, chunks: Sequence[Chunk], holed: Collection[int]) -> None:
        """Nothing: the tasks have checked the log starts."""

    def explain_failure(self, source: Source, chunks: Sequence[Chunk], text: str) -> PenstockError | None:  # noqa: ARG002
        """None: the errors of this reader reach the driver complete."""
        return None


def _make_task(
    source: Source, groups: Sequence[Sequence[Chunk]], stage: StageGroup
) -> Callable[[Iterator[int]], Iterator[tuple[int, bool]]]:
    """Make the function that Spark runs on the executors, from numbers of groups to the outcomes of their chunks."""

    def run(numbers: Iterator[int]) -> Iterator[tuple[int, bool]]:
        for number in numbers:
            try:
                written = stage(groups[number], open_group(source, groups[number]))
            except PenstockError as error:
                # The error holds the text of its cause. A chained trace would be written into Spark's log.
                raise TaskError(error) from None
            yield from ((each.task, each.won) for each in written)

    return run


def open_group(source: Source, chunks: Sequence[Chunk]) -> OpenGroup:
    """Describe how a group is read."""
    return OpenGroup(
        open=lambda: closing(read_chunks(source, chunks)),
        find_log_starts=lambda partitions: find_log_starts(source, partitions),
        can_open_again=True,
        is_retry=False,
    )


def read_chunks(source: Source, chunks: Sequence[Chunk]) -> Generator[Part]:
    """Read chunks with one consumer: chunks of different partitions together, chunks of one partition in turn."""
    consumer = open_consumer(source)
    try:
        for together in split_passes(chunks):
            yield from _Reading(source, together, consumer).read()
    finally:
        consumer.close()


def read_whole(source: Source, chunk: Chunk) -> Generator[Batch]:
    """Read one chunk through the checks of the contract."""
    with closing(read_chunks(source, [chunk])) as read:
        for _, batch in open_chunks(source, [chunk]).check(read):
            yield batch


def open_chunks(source: Source, chunks: Sequence[Chunk]) -> CheckedChunks:
    """Make the checks for chunks that the native reader reads."""
    return CheckedChunks(source, chunks, lambda partitions: find_log_starts(source, partitions))


def open_consumer(source: Source) -> Consumer:
    """Make a consumer."""
    forced = FORCED | {"isolation.level": source.isolation}
    with refusing_settings():
        return Consumer({**TUNING, **source.settings, **forced}, logger=log)


def find_log_starts(source: Source, partitions: Collection[int]) -> dict[int, int]:
    """Read where the logs of partitions start now."""
    consumer = open_consumer(source)
    try:
        return {number: _find_watermarks(consumer, source, Range(number, 0, 0))[0] for number in sorted(partitions)}
    finally:
        consumer.close()


def _find_watermarks(consumer: Consumer, source: Source, range_: Range) -> tuple[int, int]:
    partition = TopicPartition(source.topic, range_.partition)
    try:
        start, end = consumer.get_watermark_offsets(partition, timeout=ANSWER_SECONDS)
    except KafkaException as error:
        raise ReadError(
            f"topic {source.topic}: Kafka did not answer where the log of partition {range_.partition} starts: "
            f"{error.args[0].str()}.",
            ranges=[range_] if len(range_) else [],
            next_step=advice.CHECK_BROKERS_THEN_STAGE,
        ) from error
    return start, end


class _Reading:
    """One pass over chunks of different partitions."""

    def __init__(self, source: Source, chunks: Sequence[Chunk], consumer: Consumer) -> None:
        self.source = source
        self.consumer = consumer
        self.unfinished = {chunk.range.partition: chunk for chunk in chunks}
        self.positions = {chunk.range.partition: chunk.range.from_offset for chunk in chunks}
        self.wanted = 500  # until the size of records is known from the first batch
        self.last_error = ""
        self.progress_at = time.monotonic()

    def read(self) -> Iterator[Part]:
        topic = self.source.topic
        self.consumer.assign([TopicPartition(topic, number, start) for number, start in self.positions.items()])
        while self.unfinished:
            messages = self.consumer.consume(min(self._count_left(), self.wanted), POLL_SECONDS)
            finished: list[int] = []
            for partition, run in self._split(messages):
                chunk = self.unfinished.get(partition)
                if chunk is None:
                    self._judge_others(run)
                    continue
                records, end = self._find_records(chunk, run)
                if records:
                    yield chunk.task, self._make_batch(records)
                    # The task may have paused: that must not count as a stall of the broker.
                    self.progress_at = time.monotonic()
                if end is not None:
                    yield chunk.task, end
                    finished.append(partition)
                    del self.unfinished[partition]
            if self.unfinished and finished:
                # A finished partition would be fetched up to its end, and fill the queue that all partitions share.
                self.consumer.incremental_unassign([TopicPartition(topic, partition) for partition in finished])
            if not messages:
                self._check_stall()

    def _count_left(self) -> int:
        return sum(
            chunk.range.until_offset - self.positions[partition] for partition, chunk in self.unfinished.items()
        )  # fmt: skip

    def _split(self, messages: list[Message]) -> Iterable[tuple[int, list[Message]]]:
        """Split messages into runs of one partition. This costs 50 ns a message, and is skipped for one partition."""
        if len(self.positions) == 1:
            return [(next(iter(self.positions)), messages)] if messages else []
        return [(partition, list(run)) for partition, run in groupby(messages, key=Message.partition)]

    def _find_records(self, chunk: Chunk, messages: list[Message]) -> tuple[list[Message], End | None]:
        """Return the records of the chunk, and its end if a message marks it."""
        until = chunk.range.until_offset
        if not any(map(Message.error, messages)) and (last := max(map(Message.offset, messages))) < until:
            return messages, End(until) if last + 1 == until else None
        records: list[Message] = []
        for message in messages:
            if message.error() is None and message.offset() < until:
                records.append(message)
                continue
            end = self._judge(message, chunk)
            if end is not None:
                return records, end
        return records, End(until) if records and records[-1].offset() + 1 == until else None

    def _judge(self, message: Message, chunk: Chunk) -> End | None:
        """Return the end if this message marks it. An error that waiting cannot fix is raised."""
        error = message.error()
        if error is None or error.code() == Code._PARTITION_EOF:
            return End(message.offset())
        if error.code() == Code._AUTO_OFFSET_RESET:
            raise self._explain_reset(chunk.range)
        if error.code() in HOPELESS:
            raise self._fail(error.str(), chunk.range)
        self.last_error = error.str()
        return None

    def _judge_others(self, messages: list[Message]) -> None:
        """Judge messages outside unfinished chunks: records are discarded, errors may concern all chunks."""
        for message in messages:
            error = message.error()
            if error is None or error.code() == Code._PARTITION_EOF:
                continue
            if error.code() in HOPELESS:
                raise self._fail(error.str())
            self.last_error = error.str()

    def _make_batch(self, messages: list[Message]) -> Batch:
        values = list(map(Message.value, messages))
        size = sum(map(len, filter(None, values))) // len(messages) + 1
        self.wanted = max(1, min(BATCH_RECORDS, BATCH_BYTES // size))
        self.positions[messages[0].partition()] = messages[-1].offset() + 1
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

    def _explain_reset(self, range_: Range) -> Exception:
        start, end = _find_watermarks(self.consumer, self.source, range_)
        if start > range_.from_offset:
            lost = Range(range_.partition, range_.from_offset, min(start, range_.until_offset))
            return lost_error(self.source.topic, lost, start)
        return self._fail(f"the log ends at offset {end}, and the range starts at {range_.from_offset}", range_)

    def _fail(self, what: str, range_: Range | None = None) -> ReadError:
        ranges = [range_] if range_ else [chunk.range for chunk in self.unfinished.values()]
        return ReadError(
            f"topic {self.source.topic}: reading stopped at offset {self.positions[ranges[0].partition]}: {what}.",
            ranges=ranges,
            next_step=advice.CHECK_BROKERS_THEN_STAGE,
        )


def _headers(message: Message) -> Headers:
    try:
        found: list[tuple[str, Any]] | None = message.headers()
    except UnicodeDecodeError:  # a header's name may be any bytes
        return [("headers whose names are not UTF-8", None)]
    return [(name, value) for name, value in found or []]
