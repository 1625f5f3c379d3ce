"""Logs: the ends of its partitions, the identity of its topic, and the content of its offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


Isolation = Literal["read_committed", "read_uncommitted"]

# The content of a span of offsets. `removed`: inside a batch that has lost the record. `absent`: in no batch. `gone`:
# below the log's start. `ahead`: at the log's end or beyond it.
Content = Literal["record", "aborted", "marker", "removed", "absent", "gone", "ahead"]


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The offsets of a partition: from its log start up to its end at the requested isolation level."""

    start: int
    end: int
    # The epoch of the leader that reported the end. It is not compared: two answers with equal offsets are equal.
    leader_epoch: int | None = field(default=None, compare=False)
    # The end with the records of open transactions, read before `end`: if `end` is not below it, the log held no other
    # record then. It is not compared either.
    high: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """The ids of cluster and topic. A topic that is created again under its name gets another id."""

    cluster_id: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class TopicLog:
    """A topic as the cluster shows it at one moment."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: Mapping[int, PartitionLog]

    @property
    def identity(self) -> Identity:
        """The ids of its cluster and of the topic."""
        return Identity(self.cluster_id, self.topic_id)


@dataclass(frozen=True, slots=True)
class Ends:
    """The offsets of a partition: its log start, and its ends for readers of committed and of all records."""

    start: int
    last_stable: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """A topic with the ends of all its partitions."""

    identity: Identity
    partitions: Mapping[int, Ends]


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition with the same content: from `from_offset` up to, and without, `until_offset`."""

    from_offset: int
    until_offset: int
    content: Content

    def __len__(self) -> int:
        return self.until_offset - self.from_offset


def tile_spans(spans: Iterable[Span], at: int, until: int) -> Iterator[Span]:
    """Clip ascending spans to [at, until), and fill the offsets between them with absent spans."""
    for span in spans:
        start, end = max(span.from_offset, at), min(span.until_offset, until)
        if start >= end:
            continue
        if start > at:
            yield Span(at, start, "absent")
        yield Span(start, end, span.content)
        at = end
    if at < until:
        yield Span(at, until, "absent")
