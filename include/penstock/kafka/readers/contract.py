"""What a reader is, and the checks that every reader goes through.

A reader gives the records of chunks in batches, those of a chunk in the order of their offsets, and for each chunk says
at last how far it has seen the log. `CheckedChunks` decides whether these were the chunks, whole and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from penstock import advice
from penstock.errors import LogLostError, ReadError
from penstock.model.ranges import Range
from penstock.model.records import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark import SparkContext

    from penstock.errors import PenstockError
    from penstock.model.log import Isolation
    from penstock.model.ranges import Chunk


@dataclass(frozen=True, slots=True)
class Source:
    """The topic to read, and how. The settings may hold a password: they stay out of the repr."""

    settings: Mapping[str, str] = field(repr=False)
    topic: str
    isolation: Isolation


@dataclass(frozen=True, slots=True)
class End:
    """The reader's last word: every visible record below `position` has been handed over."""

    position: int


# A part of a chunk, with the number of the task that accounts for the chunk.
Part: TypeAlias = tuple[int, Batch | End]


class FindLogStarts(Protocol):
    """Asks where the logs of partitions start now."""

    def __call__(self, partitions: Collection[int]) -> Mapping[int, int]: ...


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """A group of chunks in a Spark task: how its records are read, and by which try of the task."""

    open: Callable[[], AbstractContextManager[Iterator[Part]]]
    # None: the executor has no Kafka client of its own, so the driver asks.
    find_log_starts: FindLogStarts | None
    can_open_again: bool
    is_retry: bool


class Outcome(Protocol):
    """What became of a chunk; `won` is false if another try of the same task had written it."""

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


class Reader(Protocol):
    """A reader: it spreads groups of chunks over Spark tasks, and hands each group's records to `stage`."""

    def stage_groups(
        self, context: SparkContext, source: Source, groups: Sequence[Sequence[Chunk]], stage: StageGroup
    ) -> list[tuple[int, bool]]:
        """Stage the groups; the number of each chunk's task, and whether this run wrote it, come back."""

    def explain_failure(self, source: Source, chunks: Sequence[Chunk], text: str) -> PenstockError | None:
        """Find the error behind the text of an exception of Spark; None if the text says all there is."""


class CheckedChunks:
    """Chunks that are read together, on their way through the checks; afterwards each knows its records and holes.

    Without `find_log_starts` the caller has to ask whether the log start has passed the first hole of a chunk.
    """

    def __init__(self, source: Source, chunks: Sequence[Chunk], find_log_starts: FindLogStarts | None) -> None:
        self.find_log_starts = find_log_starts
        self.chunks = {chunk.task: CheckedChunk(source, chunk) for chunk in chunks}

    def check(self, read: Iterator[Part]) -> Iterator[tuple[int, Batch]]:
        """Pass the batches on, checked; a fault is raised, at the latest when the reader has ended."""
        for task, part in read:
            batch = self.chunks[task].take(part)
            if batch is not None:
                yield task, batch
        for chunk in self.chunks.values():
            chunk.refuse_unfinished()
        self._tell_holes_from_losses()

    def _tell_holes_from_losses(self) -> None:
        """A hole that the log start has passed by now may have been a record when the read began."""
        if self.find_log_starts is None:
            return
        holed = [chunk for chunk in self.chunks.values() if chunk.first_hole is not None]
        starts = self.find_log_starts({chunk.range.partition for chunk in holed}) if holed else {}
        for chunk in holed:
            chunk.refuse_lost(starts[chunk.range.partition])


class CheckedChunk:
    """One chunk: whether its batches are the chunk, the whole chunk and nothing but the chunk."""

    def __init__(self, source: Source, chunk: Chunk) -> None:
        self.topic = source.topic
        self.range = chunk.range
        self.position = chunk.range.from_offset
        self.records = 0
        self.holes = 0
        self.first_hole: int | None = None
        self._ended = False

    def take(self, part: Batch | End) -> Batch | None:
        """Take the next part; a batch with records comes back."""
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
        """Refuse a chunk whose reader never said that it has seen all of it."""
        if not self._ended:
            raise self._refuse(f"the reader ended at offset {self.position}, before the end of its chunk")

    def refuse_lost(self, log_start: int) -> None:
        """Refuse holes that the log start has passed: they cannot be told from lost records."""
        if self.first_hole is not None and log_start > self.first_hole:
            lost = Range(self.range.partition, self.first_hole, min(log_start, self.range.until_offset))
            raise lost_error(self.topic, lost, log_start)

    def _accept(self, batch: Batch) -> None:
        offsets = batch.offsets
        first, last = int(offsets[0]), int(offsets[-1])
        if batch.partition != self.range.partition:
            raise self._refuse(f"the reader gave a record of partition {batch.partition}")
        if first < self.position or not bool(np.all(offsets[1:] > offsets[:-1])):
            raise self._refuse(f"the reader gave offsets that do not rise, at or after {self.position}")
        if last >= self.range.until_offset:
            raise self._refuse(f"the reader gave offset {last}, past the end of its chunk")
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
    """Say which offsets the log cannot give any more."""
    return LogLostError(
        f"topic {topic}: the log of partition {lost.partition} starts at offset {log_start} now; "
        f"{len(lost)} planned offsets are gone or cannot be told from holes.",
        ranges=[lost],
        next_step=advice.RUN_AFTER_LOSS,
    )
