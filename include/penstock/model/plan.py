"""The ranges of a load: pure decisions over positions and the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.model.log import PartitionLog

FaultKind = Literal["log_start_passed", "beyond_end", "partition_gone", "rewritten"]
OnLoss = Literal["stop", "record"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A partition whose log and position do not fit together. It is never repaired silently."""

    kind: FaultKind
    partition: int
    position: int
    log: PartitionLog | None
    truncated_at: int | None = None  # set if the kind is "rewritten"

    def __str__(self) -> str:
        where = f"partition {self.partition}"
        if self.log is None:
            return f"{where} is missing from the topic; the position was {self.position}"
        if self.kind == "log_start_passed":
            lost = Range(self.partition, self.position, self.log.start)
            return f"{lost} are lost: the log now starts at {self.log.start}"
        if self.truncated_at is not None:
            return (
                f"{where}: the log was truncated at {self.truncated_at}, below the position {self.position}, and has "
                "grown again: it no longer holds the records that were loaded from there on, and its records of today "
                "were never loaded"
            )
        return (
            f"{where}: the position {self.position} is beyond the end of the log, {self.log.end}; the log no longer "
            f"holds the loaded records of offsets [{self.log.end}, {self.position})"
        )

    @property
    def lost(self) -> Range:
        """The offsets whose loaded records the log no longer holds."""
        if self.log is None:
            return Range(self.partition, self.position, self.position)
        if self.truncated_at is not None:
            return Range(self.partition, self.truncated_at, self.position)
        low, high = sorted((self.position, self.log.start if self.kind == "log_start_passed" else self.log.end))
        return Range(self.partition, low, high)


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges to load and the losses to record before them, or the faults that prevent the load."""

    ranges: tuple[Range, ...]
    faults: tuple[Fault, ...]
    losses: tuple[Fault, ...] = ()


def open_positions(
    known: Mapping[int, int], log: Mapping[int, PartitionLog], first: Mapping[int, int]
) -> dict[int, int]:
    """Give a first position to each partition that has none.

    If no partition has a position, the pipeline's `start` decides. A partition that is added later starts at its log
    start, so that no record written before the next plan is skipped.
    """
    return {
        number: partition.start if known else first[number] for number, partition in log.items() if number not in known
    }


def find_faults(positions: Mapping[int, int], log: Mapping[int, PartitionLog]) -> tuple[Fault, ...]:
    """Compare each position with the log. A log that starts at the position has lost nothing."""
    return tuple(
        fault
        for partition, position in sorted(positions.items())
        if (fault := _find_fault(partition, position, log.get(partition)))
    )


def find_new_leaders(
    positions: Mapping[int, tuple[int, int | None]], log: Mapping[int, PartitionLog]
) -> dict[int, tuple[int, int]]:
    """Find the positions, with epochs, of partitions with a new leader: only their logs can have been truncated."""
    return {
        number: (position, epoch)
        for number, (position, epoch) in positions.items()
        if epoch is not None
        and number in log
        and position >= log[number].start
        and (log[number].leader_epoch or 0) > epoch
    }


def _find_fault(partition: int, position: int, log: PartitionLog | None) -> Fault | None:
    if log is None:
        return Fault("partition_gone", partition, position, None)
    if position > log.end:
        return Fault("beyond_end", partition, position, log)
    if position < log.start:
        return Fault("log_start_passed", partition, position, log)
    return None


def plan_ranges(
    positions: Mapping[int, int], log: Mapping[int, PartitionLog], max_records: int, on_loss: OnLoss = "stop"
) -> Plan:
    """Plan from each position up to the end of its partition, at most `max_records` offsets from each partition.

    With `record`, a log start after the position is a loss and not a fault: the plan continues from there. Any other
    fault stops the whole plan, and records no loss.
    """
    faults = find_faults(positions, log)
    losses = tuple(fault for fault in faults if fault.kind == "log_start_passed" and on_loss == "record")
    if len(losses) < len(faults):
        return Plan((), faults)
    starts = skip_losses(positions, losses)
    ranges = (
        Range(partition, start, min(log[partition].end, start + max_records))
        for partition, start in sorted(starts.items())
    )
    return Plan(tuple(range_ for range_ in ranges if len(range_)), (), losses)


def skip_losses(positions: Mapping[int, int], losses: Iterable[Fault]) -> dict[int, int]:
    """Move positions to the end of what is lost."""
    return {**positions, **{loss.partition: loss.lost.until_offset for loss in losses}}


def continue_from(
    positions: Mapping[int, int], log: Mapping[int, PartitionLog], truncations: Mapping[int, int]
) -> dict[int, int]:
    """Choose where the loads continue with an adopted log: all records from a truncation on are new.

    A new partition starts at its log start. A partition that is missing from the log is left out.
    """
    return {
        number: min(positions[number], truncations.get(number, positions[number]))
        if number in positions
        else partition.start
        for number, partition in log.items()
    }
