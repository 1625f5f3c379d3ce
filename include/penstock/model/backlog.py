"""Whether the records that wait for a pipeline should start a load now. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from penstock.declaration.starts import LoadingHours
    from penstock.model.log import Isolation

Why = Literal["min_records", "max_wait"]
# A start that was lost, or whose run found nothing, is repeated after this time while the positions stay.
AGAIN_AFTER = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Watched:
    """A pipeline whose waiting records may start a load."""

    pipeline: str
    topic: str
    isolation: Isolation
    min_records: int | None
    max_wait: timedelta | None
    hours: LoadingHours | None = None

    def may_start(self, moment: datetime) -> bool:
        """Whether the window of the pipeline is open."""
        return self.hours is None or self.hours.is_open(moment)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The offsets that wait in each partition, from the position on."""

    positions: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def waiting(self) -> int:
        """How many offsets wait. In a partition without a position all offsets count."""
        return sum(max(0, end - self.positions.get(number, 0)) for number, end in self.ends.items())

    def list_waiting(self) -> list[int]:
        """The partitions in which offsets wait."""
        return [number for number, end in self.ends.items() if end > self.positions.get(number, 0)]

    def has_older(self, first_since: Mapping[int, int]) -> bool:
        """Whether a partition waits with a record from before a moment, given its first offset since that moment.

        A negative offset means that all of its records are older. The timestamps decide, and no record is read.
        """
        return any(
            first_since[number] < 0 or first_since[number] > self.positions.get(number, 0)
            for number in self.list_waiting()
            if number in first_since
        )


@dataclass(frozen=True, slots=True)
class Start:
    """A start of a pipeline's DAG: why, and how many offsets waited."""

    pipeline: str
    why: Why
    waiting: int


@dataclass(slots=True)
class Started:
    """The last start of a pipeline. It is not repeated while the positions stay, for some minutes."""

    at: datetime
    positions: Mapping[int, int]

    def stays(self, positions: Mapping[int, int], now: datetime) -> bool:
        """Whether a further start would only repeat this one."""
        return positions == self.positions and now < self.at + AGAIN_AFTER
