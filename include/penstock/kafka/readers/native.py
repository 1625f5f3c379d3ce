"""The native reader: librdkafka at explicit offsets, in the task itself."""

from __future__ import annotations

import logging
from contextlib import closing
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from penstock import advice
from penstock.errors import PenstockError, ReadError
from penstock.kafka.admin import refusing_settings
from penstock.kafka.readers.contract import CheckedChunks, End, OpenGroup
from penstock.kafka.readers.reading import BATCH_BYTES, BATCH_RECORDS, UNREADABLE_HEADERS, Reading
from penstock.kafka.readers.rust import RunReading, open_rust_consumer
from penstock.model.ranges import Range, split_passes
from penstock.model.records import Batch, Headers
from penstock.spark.error_transport import TaskError

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.kafka.readers.contract import DecodeGroup, Part, Source, StageGroup
    from penstock.model.ranges import Chunk
    from penstock.spark.executors import Executors, Work

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
ANSWER_SECONDS = 15.0


class NativeReader:
    """Reads inside the Spark task, so that it can read a group a second time."""

    def stage_groups(
        self, spark: Executors, source: Source, groups: Sequence[Sequence[Chunk]], stage: StageGroup
    ) -> list[tuple[int, bool]]:
        """Stage each group by a Spark task of its own."""
        return spark.run(len(groups), _make_task(source, groups, stage))

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


def _make_task(source: Source, groups: Sequence[Sequence[Chunk]], stage: StageGroup) -> Work:
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
    rust = open_rust_consumer(source, make_settings(source)) if source.rust else None
    consumer = open_consumer(source) if rust is None else rust
    make_reading = MessageReading if rust is None else RunReading
    try:
        for together in split_passes(chunks):
            reading = make_reading(source, together, consumer, partial(_find_bounds, source))
            yield from reading.read()
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
    with refusing_settings():
        return Consumer(make_settings(source), logger=log)


def make_settings(source: Source) -> dict[str, str | int]:
    """Make the settings of a consumer."""
    return {**TUNING, **source.settings, **FORCED, "isolation.level": source.isolation}


def find_log_starts(source: Source, partitions: Collection[int]) -> dict[int, int]:
    """Read where the logs of partitions start now."""
    consumer = open_consumer(source)
    try:
        return {number: _find_watermarks(consumer, source, Range(number, 0, 0))[0] for number in sorted(partitions)}
    finally:
        consumer.close()


def _find_bounds(source: Source, range_: Range) -> tuple[int, int]:
    """Read where the log of a range's partition starts and ends now."""
    with closing(open_consumer(source)) as consumer:
        return _find_watermarks(consumer, source, range_)


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


class MessageReading(Reading[list[Message]]):
    """A pass by the consumer of confluent_kafka, whose messages are objects of Python."""

    def split(self, messages: list[Message]) -> Iterable[tuple[int, list[Message]]]:
        """Split messages into runs of one partition. This costs 50 ns a message, and is skipped for one partition."""
        if len(self.positions) == 1:
            return [(next(iter(self.positions)), messages)] if messages else []
        return [(partition, list(run)) for partition, run in groupby(messages, key=Message.partition)]

    def find_records(self, chunk: Chunk, messages: list[Message]) -> tuple[list[Message], End | None]:
        """Return the records of the chunk, and its end if a message marks it."""
        until = chunk.range.until_offset
        if not any(map(Message.error, messages)) and (last := max(map(Message.offset, messages))) < until:
            return messages, End(until) if last + 1 == until else None
        records: list[Message] = []
        for message in messages:
            error = message.error()
            if error is None and message.offset() < until:
                records.append(message)
                continue
            end = End(message.offset()) if error is None else self.judge(error, message.offset(), chunk)
            if end is not None:
                return records, end
        return records, End(until) if records and records[-1].offset() + 1 == until else None

    def judge_others(self, messages: list[Message]) -> None:
        """Judge messages outside unfinished chunks: records are discarded, errors may concern all chunks."""
        for message in messages:
            self.judge_other(message.error())

    def make_batch(self, messages: list[Message]) -> Batch:
        """Make a batch of the records of a chunk."""
        values = list(map(Message.value, messages))
        size = sum(map(len, filter(None, values))) // len(messages) + 1
        self.wanted = max(1, min(BATCH_RECORDS, BATCH_BYTES // size))
        return Batch(
            partition=messages[0].partition(),
            offsets=np.fromiter(map(Message.offset, messages), np.int64, len(messages)),
            timestamps=np.fromiter((moment for _, moment in map(Message.timestamp, messages)), np.int64, len(messages)),
            values=values,
            keys=list(map(Message.key, messages)),
            headers=lambda index: _headers(messages[index]),
        )


def _headers(message: Message) -> Headers:
    try:
        found: list[tuple[str, Any]] | None = message.headers()
    except UnicodeDecodeError:
        return UNREADABLE_HEADERS
    return [(name, value) for name, value in found or []]
