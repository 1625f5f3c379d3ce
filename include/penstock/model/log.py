"""What a topic holds at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The offsets a partition holds: from its log start up to its end at the isolation level asked for."""

    start: int
    end: int
    # Of the leader that told the end; two answers that differ in nothing else tell the same.
    leader_epoch: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which topic of which cluster: a topic that is created again under its name gets another id."""

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
        """Which topic it is."""
        return Identity(self.cluster_id, self.topic_id)
