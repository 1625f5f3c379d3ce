"""What a reader is, and the checks that every reader goes through.

A reader gives the records of one chunk in batches, in the order of their offsets, and at last says how far it has seen
the log. It is `CheckedChunk` that decides whether this was the chunk, the whole chunk and nothing but the chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from penstock.errors import LogLostError, ReadError
from penstock.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from penstock.kafka import Isolation
    from penstock.ranges import Chunk

    Numbers = npt.NDArray[np.int64]

NO_TIMESTAMP = -1  # what Kafka itself says when a record carries none
Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Source:
    """The topic to read, and how. The settings may hold a password: they stay out of the repr."""

    settings: Mapping[str, str] = field(repr=False)
    topic: str
    isolation: Isolation


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one partition, column by column; headers, which only poison needs, are asked for by index."""

    partition: int
    offsets: Numbers
    timestamps: Numbers  # milliseconds since 1970, or NO_TIMESTAMP
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    headers: Callable[[int], Headers]


@dataclass(frozen=True, slots=True)
class End:
    """The reader's last word: every visible record below `position` has been handed over."""

    position: int


class Reader(Protocol):
    """Reads one chunk. Open things are closed when the iterator is."""

    def __call__(self, source: Source, chunk: Chunk) -> Iterator[Batch | End]: ...


class CheckedChunk:
    """One chunk on its way through the checks; afterwards it knows its records and its holes."""

    def __init__(self, source: Source, chunk: Chunk, find_log_start: Callable[[], int]) -> None:
        self.topic = source.topic
        self.range = chunk.range
        self.find_log_start = find_log_start
        self.position = chunk.range.from_offset
        self.records = 0
        self.holes = 0
        self.first_hole: int | None = None

    def check(self, read: Iterator[Batch | End]) -> Iterator[Batch]:
        """Pass the batches on, checked; what is wrong is raised, at the latest when the reader has ended."""
        end: End | None = None
        for part in read:
            if end is not None:
                raise self._refuse("the reader went on after its end")
            if isinstance(part, End):
                end = part
            elif len(part.offsets):
                self._accept(part)
                yield part
        self._finish(end)

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

    def _finish(self, end: End | None) -> None:
        if end is None or end.position < self.range.until_offset:
            seen = self.position if end is None else end.position
            raise self._refuse(f"the reader ended at offset {seen}, before the end of its chunk")
        if self.first_hole is None and self.position < self.range.until_offset:
            self.first_hole = self.position
        self._move(self.range.until_offset, 0)
        if self.first_hole is not None:
            self._tell_holes_from_losses(self.first_hole)

    def _tell_holes_from_losses(self, first_hole: int) -> None:
        """A hole that the log start has passed by now may have been a record when the read began."""
        log_start = self.find_log_start()
        if log_start > first_hole:
            lost = Range(self.range.partition, first_hole, min(log_start, self.range.until_offset))
            raise lost_error(self.topic, lost, log_start)

    def _refuse(self, what: str) -> ReadError:
        return ReadError(
            f"topic {self.topic}: {what}.",
            ranges=[self.range],
            next_step="try the stage step again; if it comes back, compare the log's end with the plan.",
        )


def lost_error(topic: str, lost: Range, log_start: int) -> LogLostError:
    """Say which offsets the log cannot give any more."""
    return LogLostError(
        f"topic {topic}: the log of partition {lost.partition} starts at offset {log_start} now; "
        f"{len(lost)} planned offsets are gone or cannot be told from holes.",
        ranges=[lost],
        next_step="start a new run: it stops and says what is lost, or records it, as `on_loss` is declared; raise the "
        "topic's retention if this comes back.",
    )
