"""The Spark reader: Spark's own Kafka source at explicit offsets, for security that only the JVM client speaks."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.carrying import CarriedError
from penstock.errors import PenstockError, ReadError
from penstock.kafka import read_log
from penstock.ranges import Range
from penstock.reading import native
from penstock.reading.contract import NO_TIMESTAMP, Batch, End, lost_error
from penstock.reading.java_settings import translate_settings
from penstock.tasks import stage_chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from penstock.assignment import Assignment
    from penstock.ranges import Chunk
    from penstock.reading.contract import Headers, Source

TUNING = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.receive.buffer.bytes": str(1024 * 1024),
    "kafkaConsumer.pollTimeoutMs": "60000",
}
NO_TIMESTAMP_TYPE = -1
RESULT = "task int, won boolean"


def stage_with_spark(context: SparkContext, assignment: Assignment, chunks: Sequence[Chunk]) -> list[tuple[int, bool]]:
    """Stage every chunk by a task of its own, told by its place in a union; who wrote each chunk comes back."""
    from pyspark.sql import SparkSession

    check_log(assignment.source, chunks)
    session = SparkSession(context)
    frames = [open_frame(session, assignment.source, [chunk.range]) for chunk in chunks]
    union = reduce(lambda left, right: left.unionAll(right), frames)
    return [(row["task"], row["won"]) for row in union.mapInArrow(make_task(assignment, chunks), RESULT).collect()]


def open_frame(spark: SparkSession, source: Source, ranges: Sequence[Range]) -> DataFrame:
    """The records of ranges, each in one Spark partition: one range of each Kafka partition, or none.

    All that Spark would choose by itself is given.
    """
    starts = {str(range_.partition): range_.from_offset for range_ in ranges}
    ends = {str(range_.partition): range_.until_offset for range_ in ranges}
    options = TUNING | {f"kafka.{name}": value for name, value in translate_settings(source.settings).items()}
    options |= {
        "assign": json.dumps({source.topic: [range_.partition for range_ in ranges]}),
        "startingOffsets": json.dumps({source.topic: starts}),
        "endingOffsets": json.dumps({source.topic: ends}),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "kafka.isolation.level": source.isolation,
    }
    frame = spark.read.format("kafka").options(**options).load()
    return frame.select("partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


def make_task(
    assignment: Assignment, chunks: Sequence[Chunk]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that Spark runs on the executors; the rows that come in are records."""

    def stage(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "runs in a Spark task"  # noqa: S101
        chunk = chunks[context.partitionId()]
        try:
            written = stage_chunk(assignment, chunk, read_parts(assignment.source, chunk, parts))
            yield pa.RecordBatch.from_pydict({"task": pa.array([written.task], pa.int32()), "won": [written.won]})
        except PenstockError as error:
            raise CarriedError(error) from None  # which holds the words of the cause; a trace would go into Spark's log

    return stage


def check_log(source: Source, chunks: Sequence[Chunk]) -> None:
    """Refuse chunks that the log does not hold whole.

    Asked before Spark reads, and after it failed: its own words tell neither loss from delay nor one partition from
    another.
    """
    held = read_log(source.settings, source.topic, source.isolation).partitions
    for range_ in (chunk.range for chunk in chunks):
        if range_.partition not in held:
            raise _short(source, range_, "is not there")
        log = held[range_.partition]
        if log.start > range_.from_offset:
            lost = Range(range_.partition, range_.from_offset, min(log.start, range_.until_offset))
            raise lost_error(source.topic, lost, log.start)
        if log.end < range_.until_offset:
            raise _short(source, range_, f"ends at offset {log.end}")


def _short(source: Source, range_: Range, what: str) -> ReadError:
    return ReadError(
        f"topic {source.topic}: partition {range_.partition} {what}, before the end of its chunk.",
        ranges=[range_],
        next_step="try the stage step again; if it comes back, compare the log with the plan.",
    )


def read_parts(source: Source, chunk: Chunk, parts: Iterator[pa.RecordBatch]) -> Iterator[Batch | End]:
    """Spark's Arrow batches as batches of records. A range that ends in holes is proven by the log's end."""
    until = chunk.range.until_offset
    position = chunk.range.from_offset
    for part in parts:
        if len(part):
            batch = make_batch(part)
            position = int(batch.offsets[-1]) + 1
            yield batch
    if position < until:
        position = min(until, native.find_watermarks(source, chunk.range.partition)[1])
    yield End(position)


def make_batch(part: pa.RecordBatch) -> Batch:
    """Make a batch of records from a frame's rows."""
    micros = part["timestamp"].cast("int64").to_pylist()
    millis = [
        NO_TIMESTAMP if kind == NO_TIMESTAMP_TYPE or moment is None else moment // 1000
        for kind, moment in zip(part["timestampType"].to_pylist(), micros, strict=True)
    ]
    headers = part["headers"]
    return Batch(
        partition=_only(part["partition"]),
        offsets=part["offset"].to_numpy(),
        timestamps=np.array(millis, np.int64),
        values=part["value"].to_pylist(),
        keys=part["key"].to_pylist(),
        headers=lambda index: _headers(headers[index].as_py()),
    )


def _only(partition: pa.Array) -> int:
    """The one partition of a batch; with more of them, none that any chunk has."""
    found = partition.unique().to_pylist()
    return int(found[0]) if len(found) == 1 else -1


def _headers(found: list[dict[str, bytes | str | None]] | None) -> Headers:
    return [(str(header["key"]), header["value"]) for header in found or []]  # type: ignore[misc]
