"""The Spark reader: Spark's own Kafka source at explicit offsets, for security that only Java's client supports."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from functools import reduce
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock import advice
from penstock.errors import PenstockError, ReadError, StageError, WrongUseError
from penstock.kafka.client_settings import translate_for_java
from penstock.kafka.readers.contract import End, OpenGroup, lost_error
from penstock.model.ranges import Range, split_passes
from penstock.model.records import NO_TIMESTAMP, Batch
from penstock.spark.error_transport import TaskError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.kafka.readers.contract import DecodeGroup, Part, Source, StageGroup
    from penstock.model.log import PartitionLog
    from penstock.model.ranges import Chunk
    from penstock.model.records import Headers
    from penstock.spark.executors import Executors

TUNING = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.receive.buffer.bytes": str(1024 * 1024),
    # At a partition's end the next fetch waits for this time at the broker, and Spark's next request waits behind it:
    # 0.5 s a partition by default.
    "kafka.fetch.max.wait.ms": "1",
    # Spark makes a consumer for each partition. Without their JMX beans 1,000 consumers took 56 s instead of 71 s.
    "kafka.auto.include.jmx.reporter": "false",
    # A consumer that lives for milliseconds has no metrics worth a request to the broker.
    "kafka.enable.metrics.push": "false",
    "kafkaConsumer.pollTimeoutMs": "60000",
}
# The error text of Spark's Kafka source for a timestamp beyond the range of Spark's microseconds.
DISTANT = re.compile(
    r"Record at topic \S+ partition (?P<partition>\d+) offset (?P<offset>\d+) has timestamp value -?\d+ that overflows"
)
NO_TIMESTAMP_TYPE = -1
PLACE = np.dtype([("partition", np.int64), ("offset", np.int64)])
RESULT = "task int, won boolean, holes bigint, first_hole bigint"


class SparkReader:
    """Reads by Spark's own Kafka source. A group can be read once in a task; a retry of the task reads it again."""

    def stage_groups(
        self, spark: Executors, source: Source, groups: Sequence[Sequence[Chunk]], stage: StageGroup
    ) -> list[tuple[int, bool]]:
        """Stage each group by a Spark task of its own; the task's place in a union gives its group."""
        chunks = [chunk for group in groups for chunk in group]
        check_log(source, chunks)
        union = _unite([open_group(spark.session, source, group) for group in groups])
        rows = union.mapInArrow(make_task(groups, stage), RESULT).collect()
        confirm_holes(source, chunks, {row["task"]: row["first_hole"] for row in rows if row["holes"]})
        return [(row["task"], row["won"]) for row in rows]

    def open_frame(
        self,
        session: SparkSession,
        source: Source,
        groups: Sequence[Sequence[Chunk]],
        decode: DecodeGroup,
        schema: StructType,
    ) -> DataFrame:
        """Open the groups as a DataFrame, each in a partition of its own.

        Each record names its group, because a transform may unite the DataFrame with others, and so number the
        partitions in another way.
        """
        check_log(source, [chunk for group in groups for chunk in group])
        frames = [
            open_group(session, source, group).selectExpr(f"{number} as piece", "*")
            for number, group in enumerate(groups)
        ]

        def run(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            first = next((part for part in parts if len(part)), None)
            if first is None:
                return
            group = groups[first["piece"][0].as_py()]
            try:
                yield from decode(group, _open_once(group, chain([first], parts)))
            except PenstockError as error:
                raise TaskError(error) from None

        return _unite(frames).mapInArrow(run, schema)

    def confirm_holes(self, source: Source, chunks: Sequence[Chunk], holed: Collection[int]) -> None:
        """Refuse holes that the log start has passed since; the first hole of a chunk is not known."""
        confirm_holes(source, chunks, dict.fromkeys(holed))

    def explain_failure(self, source: Source, chunks: Sequence[Chunk], text: str) -> PenstockError | None:
        """Look at the log: Spark's text does not distinguish loss from delay, or one partition from another."""
        missing = explain_missing_source(text)
        if missing is not None:
            return missing
        try:
            check_log(source, chunks)
        except PenstockError as found:
            return found
        distant = find_distant_record(text)
        if distant:
            return StageError(
                f"Spark's Kafka source cannot read the record at offset {distant.from_offset}: its timestamp is beyond "
                "the range of Spark's timestamps.",
                ranges=[distant],
                next_step=advice.QUARANTINE_BY_NATIVE_READER,
            )
        return None


def explain_missing_source(text: str) -> PenstockError | None:
    """Explain that a kept server was started without Spark's Kafka source; None if Spark failed for another reason."""
    if "DATA_SOURCE_NOT_FOUND" not in text:
        return None
    return WrongUseError(
        "the Spark server has no Kafka source; `reader: spark` and `penstock verify` need it.",
        next_step=advice.SERVE_WITH_KAFKA_SOURCE,
    )


def find_distant_record(text: str) -> Range | None:
    """Find the record whose timestamp stopped Spark; None if Spark failed for another reason."""
    found = DISTANT.search(text)
    return Range(int(found["partition"]), int(found["offset"]), int(found["offset"]) + 1) if found else None


def open_group(spark: SparkSession, source: Source, group: Sequence[Chunk]) -> DataFrame:
    """The records of a group of chunks in one Spark partition, chunk by chunk."""
    passes = [open_frame(spark, source, [chunk.range for chunk in part]) for part in split_passes(group)]
    return _unite(passes).coalesce(1)


def _unite(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.unionAll(right), frames)


def open_frame(spark: SparkSession, source: Source, ranges: Sequence[Range]) -> DataFrame:
    """The records of ranges, at most one range of a Kafka partition, each in one Spark partition.

    All options that Spark would choose by itself are given.
    """
    starts = {str(range_.partition): range_.from_offset for range_ in ranges}
    ends = {str(range_.partition): range_.until_offset for range_ in ranges}
    options = TUNING | {f"kafka.{name}": value for name, value in translate_for_java(source.settings).items()}
    options |= {
        "assign": json.dumps({source.topic: [range_.partition for range_ in ranges]}),
        "startingOffsets": json.dumps({source.topic: starts}),
        "endingOffsets": json.dumps({source.topic: ends}),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "kafka.isolation.level": source.isolation,
    }
    frame = spark.read.format("kafka").options(**options).load()
    # At each row Spark takes the size of its Arrow batch, for which Arrow visits all rows since the last one with a
    # list: a seventh of the time of records without headers.
    headers = "coalesce(headers, array()) as headers"
    return frame.selectExpr("partition", "offset", "timestamp", "timestampType", "key", "value", headers)


def make_task(
    groups: Sequence[Sequence[Chunk]], stage: StageGroup
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function that Spark runs on the executors, from rows that are records to the outcomes of chunks."""

    def run(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "runs in a Spark task"  # noqa: S101
        group = groups[context.partitionId()]
        opened = _open_once(group, parts)
        try:
            written = stage(group, replace(opened, is_retry=context.attemptNumber() > 0))
        except PenstockError as error:
            raise TaskError(error) from None  # the reason is in native.py
        yield pa.RecordBatch.from_pydict(
            {
                "task": pa.array([each.task for each in written], pa.int32()),
                "won": [each.won for each in written],
                "holes": pa.array([each.holes for each in written], pa.int64()),
                "first_hole": pa.array([each.first_hole for each in written], pa.int64()),
            }
        )

    return run


def _open_once(group: Sequence[Chunk], parts: Iterator[pa.RecordBatch]) -> OpenGroup:
    return OpenGroup(
        open=lambda: nullcontext(read_parts(group, parts)),
        find_log_starts=None,
        can_open_again=False,
        is_retry=False,
    )


def check_log(source: Source, chunks: Sequence[Chunk]) -> None:
    """Refuse chunks that the log does not hold whole. Checked before Spark reads, and after Spark failed."""
    held = _read_log(source)
    for range_ in (chunk.range for chunk in chunks):
        _refuse_lost(source, range_, range_.from_offset, held)


def confirm_holes(source: Source, chunks: Sequence[Chunk], first_holes: Mapping[int, int | None]) -> None:
    """Refuse holes that may have been records: the log start has passed them, or the log ends before them.

    The driver checks this after all records have been read. If another attempt has written a chunk, its first hole is
    not known; it may be the first offset.
    """
    held = _read_log(source) if first_holes else {}
    for chunk in chunks:
        if chunk.task in first_holes:
            first = first_holes[chunk.task]
            _refuse_lost(source, chunk.range, chunk.range.from_offset if first is None else first, held)


def _read_log(source: Source) -> Mapping[int, PartitionLog]:
    from penstock.kafka.admin import read_log  # late: executors import this module, and may be without the client

    return read_log(source.settings, source.topic, source.isolation).partitions


def _refuse_lost(source: Source, range_: Range, since: int, held: Mapping[int, PartitionLog]) -> None:
    """Refuse a range of which the log does not hold all offsets since one of them."""
    if range_.partition not in held:
        raise _short(source, range_, "does not exist")
    log = held[range_.partition]
    if log.start > since:
        lost = Range(range_.partition, since, min(log.start, range_.until_offset))
        raise lost_error(source.topic, lost, log.start)
    if log.end < range_.until_offset:
        raise _short(source, range_, f"ends at offset {log.end}")


def _short(source: Source, range_: Range, what: str) -> ReadError:
    return ReadError(
        f"topic {source.topic}: partition {range_.partition} {what}, before the end of its chunk.",
        ranges=[range_],
        next_step=advice.RETRY_STAGE_THEN_COMPARE,
    )


def read_parts(chunks: Sequence[Chunk], parts: Iterator[pa.RecordBatch]) -> Iterator[Part]:
    """Make batches of records from Spark's Arrow batches. The driver checks that the log reaches a range's end."""
    for part in parts:
        for task, piece in _split(chunks, part):
            yield task, make_batch(piece)
    for chunk in chunks:
        yield chunk.task, End(chunk.range.until_offset)


def _split(chunks: Sequence[Chunk], part: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split a batch by chunk. A record of no chunk goes to a chunk that will refuse it."""
    if not len(part):
        return
    if len(chunks) == 1:
        yield chunks[0].task, part
        return
    ordered = sorted(chunks, key=lambda chunk: chunk.range)
    places = np.array([(chunk.range.partition, chunk.range.from_offset) for chunk in ordered], PLACE)
    found = np.empty(len(part), PLACE)
    found["partition"], found["offset"] = part["partition"].to_numpy(), part["offset"].to_numpy()
    owners = np.maximum(np.searchsorted(places, found, side="right") - 1, 0)
    starts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(part)]
    for start, until in pairwise(starts):
        yield ordered[int(owners[start])].task, part.slice(start, until - start)


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
    """The partition of a batch; -1, which no chunk has, if there is more than one."""
    found = partition.unique().to_pylist()
    return int(found[0]) if len(found) == 1 else -1


def _headers(found: list[dict[str, bytes | str | None]] | None) -> Headers:
    return [(str(header["key"]), header["value"]) for header in found or []]  # type: ignore[misc]
