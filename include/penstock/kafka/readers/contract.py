"""The contract of readers, the checks of their records, and the readers by name.

A reader yields the records of chunks in batches, in the order of offsets within a chunk. At the end of each chunk it
yields the offset up to which it has read the log. `CheckedChunks` checks that the batches are exactly the chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from penstock import advice
from penstock.errors import LogLostError, ReadError
from penstock.model.ranges import Range
from penstock.model.records import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from penstock.errors import PenstockError
    from penstock.model.log import Isolation
    from penstock.model.ranges import Chunk
    from penstock.spark.executors import Executors


@dataclass(frozen=True, slots=True)
class Source:
    """The topic to read, and how. The settings may hold a password: they stay out of the repr."""

    settings: Mapping[str, str] = field(repr=False)
    topic: str
    isolation: Isolation
    # Whether the record path in Rust may take the records, where it is installed.
    rust: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """The end of a chunk: the reader has yielded every visible record below `position`."""

    position: int


# A part of a chunk, with the number of the chunk's task.
Part: TypeAlias = tuple[int, Batch | End]


class FindLogStarts(Protocol):
    """Reads where the logs of partitions start now."""

    def __call__(self, partitions: Collection[int]) -> Mapping[int, int]: ...


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """A group of chunks in a Spark task: how its records are read, and whether the task is tried again."""

    open: Callable[[], AbstractContextManager[Iterator[Part]]]
    # None if the executor has no Kafka client of its own: then the driver reads the log starts.
    find_log_starts: FindLogStarts | None
    can_open_again: bool
    is_retry: bool


class Outcome(Protocol):
    """The outcome of a chunk; `won` is false if another attempt of the same task had written it before."""

    @property
    def task(self) -> int: ...
    @property
    def won(self) -> bool: ...
    @property
    def holes(self) -> int: ...
    @property
    def first_hole(self) -> int | None: ...


class StageGroup(Protocol):
    """Stages a group of chunks inside a Spark task."""

    def __call__(self, chunks: Sequence[Chunk], group: OpenGroup) -> Sequence[Outcome]: ...


class DecodeGroup(Protocol):
    """Decodes a group of chunks inside a Spark task, to batches of a DataFrame."""

    def __call__(self, chunks: Sequence[Chunk], group: OpenGroup) -> Iterator[pa.RecordBatch]: ...


class Reader(Protocol):
    """A reader: it distributes groups of chunks over Spark tasks, and passes each group's records to `stage`."""

    def stage_groups(
        self, spark: Executors, source: Source, groups: Sequence[Sequence[Chunk]], stage: StageGroup
    ) -> list[tuple[int, bool]]:
        """Stage the groups. Returns the number of each chunk's task, and whether this run wrote the chunk."""

    def open_frame(
        self,
        session: SparkSession,
        source: Source,
        groups: Sequence[Sequence[Chunk]],
        decode: DecodeGroup,
        schema: StructType,
    ) -> DataFrame:
        """Open the decoded records of the groups as a DataFrame. Spark may read a group never, or more than once."""

    def confirm_holes(self, source: Source, chunks: Sequence[Chunk], holed: Collection[int]) -> None:
        """Refuse holes of the tasks `holed` that may have been records, as far as the tasks could not do that."""

    def explain_failure(self, source: Source, chunks: Sequence[Chunk], text: str) -> PenstockError | None:
        """Find the error behind the text of an exception of Spark; None if nothing more is known than the text."""


class CheckedChunks:
    """The checks of chunks that are read together. Afterwards each chunk has the counts of its records and holes.

    Without `find_log_starts` the caller has to check whether the log start has passed the first hole of a chunk.
    """

    def __init__(self, source: Source, chunks: Sequence[Chunk], find_log_starts: FindLogStarts | None) -> None:
        self.find_log_starts = find_log_starts
        self.chunks = {chunk.task: CheckedChunk(source, chunk) for chunk in chunks}

    def check(self, read: Iterator[Part]) -> Iterator[tuple[int, Batch]]:
        """Yield the checked batches. A fault is raised at the latest after the reader has ended."""
        for task, part in read:
            batch = self.chunks[task].take(part)
            if batch is not None:
                yield task, batch
        for chunk in self.chunks.values():
            chunk.refuse_unfinished()
        self._refuse_lost()

    def _refuse_lost(self) -> None:
        """Refuse holes that the log start has passed: they may have been records when the read began."""
        if self.find_log_starts is None:
            return
        holed = [chunk for chunk in self.chunks.values() if chunk.first_hole is not None]
        starts = self.find_log_starts({chunk.range.partition for chunk in holed}) if holed else {}
        for chunk in holed:
            chunk.refuse_lost(starts[chunk.range.partition])


class CheckedChunk:
    """The checks of one chunk: its batches must be the whole chunk and nothing else."""

    def __init__(self, source: Source, chunk: Chunk) -> None:
        self.topic = source.topic
        self.range = chunk.range
        self.position = chunk.range.from_offset
        self.records = 0
        self.holes = 0
        self.first_hole: int | None = None
        self._ended = False

    def take(self, part: Batch | End) -> Batch | None:
        """Check the next part, and return it if it is a batch with records."""
        if self._ended:
            raise self._refuse("the reader continued after its end")
        if isinstance(part, End):
            self._finish(part)
            return None
        if not len(part.offsets):
            return None
        self._accept(part)
        return part

    def refuse_unfinished(self) -> None:
        """Refuse a chunk that the reader has not read to its end."""
        if not self._ended:
            raise self._refuse(f"the reader ended at offset {self.position}, before the end of its chunk")

    def refuse_lost(self, log_start: int) -> None:
        """Refuse holes that the log start has passed: they cannot be distinguished from lost records."""
        if self.first_hole is not None and log_start > self.first_hole:
            lost = Range(self.range.partition, self.first_hole, min(log_start, self.range.until_offset))
            raise lost_error(self.topic, lost, log_start)

    def _accept(self, batch: Batch) -> None:
        offsets = batch.offsets
        first, last = int(offsets[0]), int(offsets[-1])
        if batch.partition != self.range.partition:
            raise self._refuse(f"the reader yielded a record of partition {batch.partition}")
        if first < self.position or not bool(np.all(offsets[1:] > offsets[:-1])):
            raise self._refuse(f"the reader yielded offsets that are not ascending from {self.position} on")
        if last >= self.range.until_offset:
            raise self._refuse(f"the reader yielded offset {last}, after the end of its chunk")
        if self.first_hole is None and last - self.position + 1 != len(offsets):
            ahead = offsets != np.arange(self.position, self.position + len(offsets))
            self.first_hole = self.position + int(np.argmax(ahead))
        self._move(last + 1, len(offsets))

    def _move(self, position: int, records: int) -> None:
        self.records += records
        self.holes += position - self.position - records
        self.position = position

    def _finish(self, end: End) -> None:
        if end.position < self.range.until_offset:
            raise self._refuse(f"the reader ended at offset {end.position}, before the end of its chunk")
        if self.first_hole is None and self.position < self.range.until_offset:
            self.first_hole = self.position
        self._move(self.range.until_offset, 0)
        self._ended = True

    def _refuse(self, what: str) -> ReadError:
        return ReadError(
            f"topic {self.topic}: {what}.",
            ranges=[self.range],
            next_step=advice.RETRY_STAGE_THEN_COMPARE,
        )


def lost_error(topic: str, lost: Range, log_start: int) -> LogLostError:
    """Make the error that names the offsets which the log no longer holds."""
    return LogLostError(
        f"topic {topic}: the log of partition {lost.partition} starts at offset {log_start} now; "
        f"{len(lost)} planned offsets are lost, or cannot be distinguished from holes.",
        ranges=[lost],
        next_step=advice.RUN_AFTER_LOSS,
    )


# Resolved late: executors of the Spark reader may be without the native reader's Kafka client.
READERS = {
    "native": "penstock.kafka.readers.native:NativeReader",
    "spark": "penstock.kafka.readers.spark:SparkReader",
}


def find_reader(name: str) -> Reader:
    """Find a reader by the name that a declaration gives it."""
    reader: Reader = resolve_name(READERS[name])()
    return reader
