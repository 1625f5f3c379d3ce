"""Judges when Kafka will delete records that are not loaded yet. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from penstock.doctor.facts import compare
from penstock.doctor.intervals import HOUR, write_duration
from penstock.errors import name_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.doctor.commands import Commands
    from penstock.doctor.facts import Finding
    from penstock.doctor.retention import Need, Retention
    from penstock.model.log import PartitionLog

State = Literal["lost", "counted", "unlimited", "unknown", "nothing_waits"]


@dataclass(frozen=True, slots=True)
class Headroom:
    """The time for which Kafka keeps a partition's unloaded records; `hours` is None if it is unknown."""

    partition: int
    state: State
    waiting: int
    hours: float | None
    told: str


def measure_headroom(
    partition: int, position: int, log: PartitionLog, retention: Retention | None, oldest_ms: int | None, now_ms: int
) -> Headroom:
    """Measure one partition. `oldest_ms` is the timestamp of the first record from the position on, if it is known."""
    waiting = max(0, log.end - max(position, log.start))
    if position < log.start:
        return Headroom(partition, "lost", waiting, 0.0, f"offsets [{position}, {log.start}) are deleted already")
    if not waiting:
        return Headroom(partition, "nothing_waits", 0, None, "everything is loaded")
    if retention is None:
        return Headroom(partition, "unknown", waiting, None, "Kafka does not show the topic's retention")
    others = _name_others(retention)
    if retention.time is None:
        reason = f"not by age; {others}" if others else "nothing is deleted, by age or by size"
        return Headroom(partition, "unknown" if others else "unlimited", waiting, None, reason)
    if oldest_ms is None:
        return Headroom(partition, "unknown", waiting, None, "no record was visible, or Kafka did not answer in time")
    hours = count_hours(oldest_ms, retention.time, now_ms)
    reason = f"not before {hours:g} h by age" if hours else "may be deleted at any moment"
    return Headroom(partition, "counted", waiting, hours, f"{reason}; {others}" if others else reason)


def count_hours(oldest_ms: int, kept: timedelta, now_ms: int) -> float:
    """Hours until the oldest record has the age at which records are deleted; rounded down, never below zero.

    Kafka deletes a segment when its newest record has that age, which is never earlier than this.
    """
    left = kept / HOUR - (now_ms - oldest_ms) / 3_600_000
    return max(0.0, math.floor(left * 100) / 100)


def _name_others(retention: Retention) -> str:
    """The ways of deletion whose time is unknown."""
    size = "by size, at an unknown time" if retention.size is not None else ""
    compaction = "by compaction at any time" if retention.compacts else ""
    return " or ".join(filter(None, (size, compaction)))


def find_growth(logs: Mapping[int, PartitionLog], firsts_ms: Mapping[int, int], now_ms: int) -> float | None:
    """Offsets per hour of the fastest partition, over its whole log; None if no record has a timestamp."""
    rates = [
        (logs[partition].end - logs[partition].start) / ((now_ms - first_ms) / 3_600_000)
        for partition, first_ms in firsts_ms.items()
        if first_ms < now_ms
    ]
    return max(rates, default=None)


def judge_headroom(measured: Sequence[Headroom], need: Need, commands: Commands) -> Finding:
    """Judge whether the next load comes before the first unloaded record is deleted."""
    wanted = f"more than an interval, {write_duration(need.interval)}" if need.interval else "more than none"
    if need.headroom is not None and need.headroom == need.least:
        wanted = f"more than {write_duration(need.headroom)}, as declared"
    known = {each.partition: each.hours for each in measured if each.hours is not None}
    if not known:
        return _judge_without_hours(measured, wanted)
    least = min(known, key=known.__getitem__)
    return compare(
        "pipeline",
        "headroom",
        f"{known[least]:g} h in partition {least}",
        wanted,
        fits=known[least] > need.least / HOUR,
        told="records may be deleted before the next scheduled load"
        if known[least] <= (need.interval or timedelta()) / HOUR
        else "records will be deleted soon",
        change=f"load now; until all records are loaded: {commands.set_topic('retention.ms', -1)}",
    )


def _judge_without_hours(measured: Sequence[Headroom], wanted: str) -> Finding:
    unknown = [each for each in measured if each.state == "unknown"]
    return compare(
        "pipeline",
        "headroom",
        "unknown" if unknown else "not needed",
        wanted,
        fits=not unknown,
        otherwise="warning",
        told=name_ranges(list(dict.fromkeys(each.told for each in unknown))),
        change="load soon, and let Kafka delete records by age only, or not at all",
    )
