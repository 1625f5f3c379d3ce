"""Which ranges a load reads: pure decisions over positions and the log."""

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
    """A partition whose log and position do not fit together; never repaired silently."""

    kind: FaultKind
    partition: int
    position: int
    log: PartitionLog | None
    cut: int | None = None  # of a log that was rewritten: where

    def __str__(self) -> str:
        where = f"partition {self.partition}"
        if self.log is None:
            return f"{where} is gone from the topic; the position was {self.position}"
        if self.kind == "log_start_passed":
            lost = Range(self.partition, self.position, self.log.start)
            return f"{lost} are lost: the log now starts at {self.log.start}"
        if self.cut is not None:
            return (
                f"{where}: the log was cut at {self.cut}, below the position {self.position}, and has grown again: "
                "what was loaded from there on is no longer in it, and what stands there now was never loaded"
            )
        return (
            f"{where}: the position {self.position} is beyond the end of the log, {self.log.end}; what the table holds "
            f"of offsets [{self.log.end}, {self.position}) is not in the log any more"
        )

    @property
    def lost(self) -> Range:
        """The offsets that the log no longer holds, or that it holds under a doubtful number."""
        if self.log is None:
            return Range(self.partition, self.position, self.position)
        if self.cut is not None:
            return Range(self.partition, self.cut, self.position)
        low, high = sorted((self.position, self.log.start if self.kind == "log_start_passed" else self.log.end))
        return Range(self.partition, low, high)


@dataclass(frozen=True, slots=True)
class Plan:
    """The ranges to load and the losses to record before, or the faults that forbid to load anything."""

    ranges: tuple[Range, ...]
    faults: tuple[Fault, ...]
    losses: tuple[Fault, ...] = ()


def open_positions(
    known: Mapping[int, int], log: Mapping[int, PartitionLog], first: Mapping[int, int]
) -> dict[int, int]:
    """Give a first position to each partition that has none.

    If no partition has one yet, the pipeline's `start` decides. A partition that appears later begins at its log start,
    so that no record written before it was noticed is passed over.
    """
    return {
        number: partition.start if known else first[number] for number, partition in log.items() if number not in known
    }


def find_faults(positions: Mapping[int, int], log: Mapping[int, PartitionLog]) -> tuple[Fault, ...]:
    """Compare every position with the log. A log that starts at the position has lost nothing."""
    return tuple(
        fault
        for partition, position in sorted(positions.items())
        if (fault := _find_fault(partition, position, log.get(partition)))
    )


def find_suspects(
    positions: Mapping[int, tuple[int, int | None]], log: Mapping[int, PartitionLog]
) -> dict[int, tuple[int, int]]:
    """Positions, with their epochs, of partitions that had another leader since: only such a log can have been cut."""
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

    With `record`, a log start that passed the position is no fault: the plan goes on from there. Whatever else does
    not fit stops all of it, losses included.
    """
    faults = find_faults(positions, log)
    losses = tuple(fault for fault in faults if fault.kind == "log_start_passed" and on_loss == "record")
    if len(losses) < len(faults):
        return Plan((), faults)
    starts = pass_over(positions, losses)
    ranges = (
        Range(partition, start, min(log[partition].end, start + max_records))
        for partition, start in sorted(starts.items())
    )
    return Plan(tuple(range_ for range_ in ranges if len(range_)), (), losses)


def pass_over(positions: Mapping[int, int], losses: Iterable[Fault]) -> dict[int, int]:
    """The positions behind what is lost."""
    return {**positions, **{loss.partition: loss.lost.until_offset for loss in losses}}


def go_on(positions: Mapping[int, int], log: Mapping[int, PartitionLog], cuts: Mapping[int, int]) -> dict[int, int]:
    """Where a log is gone on with that is known up to some positions: everything from a cut on is new.

    A partition that is new begins at its log start; one that is gone is left out.
    """
    return {
        number: min(positions[number], cuts.get(number, positions[number])) if number in positions else partition.start
        for number, partition in log.items()
    }
