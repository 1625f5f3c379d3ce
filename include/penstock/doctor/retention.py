"""Judges whether the topic keeps its records until the pipeline has loaded them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.declaration.durations import parse_duration
from penstock.doctor.facts import Finding, compare, miss
from penstock.doctor.intervals import HOUR, find_longest_interval, write_duration, write_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.doctor.commands import Commands

INTERVALS = 4
# A held or failed load waits for a person, who may be away over a weekend.
PATIENCE = timedelta(days=3)
# Some topics have the greatest number for "no limit".
ENDLESS = timedelta(days=365_000)
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits of a topic's log: age, size, and compaction by key."""

    time: timedelta | None
    size: int | None
    compacts: bool


@dataclass(frozen=True, slots=True)
class Need:
    """The time for which a pipeline needs its records; `interval` is None if the schedule has no fixed intervals."""

    interval: timedelta | None
    time: timedelta
    reason: str
    headroom: timedelta | None = None  # the least time that the declaration wants to be left

    @property
    def least(self) -> timedelta:
        """The least time for which the records that wait must still be kept."""
        return max(self.interval or timedelta(), self.headroom or timedelta())


def read_retention(config: Mapping[str, str]) -> Retention | None:
    """Read the retention from the topic's settings; None if Kafka does not show all of them."""
    if not config.keys() >= {"cleanup.policy", "retention.ms", "retention.bytes"}:
        return None
    policy = config["cleanup.policy"].split(",")
    deletes = "delete" in policy
    milliseconds, size = int(config["retention.ms"]), int(config["retention.bytes"])
    endless = milliseconds < 0 or milliseconds > ENDLESS / MILLISECOND
    return Retention(
        time=None if endless or not deletes else milliseconds * MILLISECOND,
        size=size if size >= 0 and deletes else None,
        compacts="compact" in policy,
    )


def find_need(schedule: str | None, headroom: str | None = None, closed: timedelta = timedelta(0)) -> Need:
    """Find the time for which records must be kept: some intervals, and the time that a person may need.

    `closed` is the time of a day in which no load may start.
    """
    need = _find_need(schedule, closed)
    return need if headroom is None else replace(need, headroom=parse_duration(headroom))


def _find_need(schedule: str | None, closed: timedelta) -> Need:
    between_runs = find_longest_interval(schedule)
    if between_runs is None:
        by_hand = "loads are started by hand" if schedule in (None, "@once") else f"the intervals of {schedule} vary"
        return Need(None, PATIENCE, by_hand)
    interval = between_runs + closed
    if INTERVALS * interval < PATIENCE:
        return Need(interval, PATIENCE, f"{write_duration(PATIENCE)}, for a load that waits for a person")
    return Need(interval, INTERVALS * interval, f"{INTERVALS} intervals of {schedule}")


def judge_cleanup(config: Mapping[str, str], commands: Commands) -> Finding:
    """Judge compaction, which deletes single records."""
    name = "cleanup.policy"
    if name not in config:
        return miss("topic", name, "delete")
    return compare(
        "topic",
        name,
        config[name] or "none: nothing is deleted",
        "delete",
        fits="compact" not in config[name],
        otherwise="warning",
        told="compaction may delete a record with a newer one of the same key before a late load reads it",
        change=f"{commands.set_topic(name, 'delete')}, if every record counts and not only the last of each key",
    )


def judge_time(retention: Retention | None, need: Need, commands: Commands) -> Finding:
    """Judge the retention by age: records must outlive some failed loads, and the time that a person needs."""
    name, wanted = "retention.ms", f"-1, or at least {write_duration(need.time)}"
    if retention is None:
        return miss("topic", name, wanted)
    if retention.time is None:
        return Finding("topic", name, "no limit", wanted, "ok")
    if need.interval is None:
        return _judge_without_schedule(retention.time, wanted, need, commands)
    return compare(
        "topic",
        name,
        f"{write_duration(retention.time)}: {write_number(retention.time / need.interval)} intervals",
        wanted,
        fits=retention.time >= need.time,
        # With less than two intervals, one failed load loses records.
        otherwise="wrong" if retention.time < 2 * need.interval else "warning",
        told=f"a failed or held load may lose records; needed: {need.reason}",
        change=commands.set_topic(name, need.time // MILLISECOND),
    )


def _judge_without_schedule(time: timedelta, wanted: str, need: Need, commands: Commands) -> Finding:
    found = write_duration(time)
    reason = f"{need.reason}: the time between two loads must never exceed {found}"
    change = f"{commands.set_topic('retention.ms', -1)}, or declare a schedule whose intervals are known"
    return Finding("topic", "retention.ms", found, wanted, "warning", reason, change)


def judge_size(retention: Retention | None, need: Need, growth: float | None, commands: Commands) -> Finding:
    """Judge the retention by size. Its time depends on the producers, and the client cannot read the size of a log."""
    name, wanted = "retention.bytes", "-1: a size gives no time"
    if retention is None:
        return miss("topic", name, wanted)
    reason = "this client cannot read the size of the log, so the time for which records are kept is unknown"
    if retention.size is not None and growth:
        average = write_number(retention.size / (growth * (need.time / HOUR)))
        reason = (
            f"at {write_number(growth)} offsets an hour, as in the fastest partition, this size lasts "
            f"{write_duration(need.time)} only if a record takes up to {average} bytes of the disk, "
            "batches and compression included"
        )
    return compare(
        "topic",
        name,
        "no limit" if retention.size is None else f"{retention.size} a partition",
        wanted,
        fits=retention.size is None,
        otherwise="warning",
        told=reason,
        change=f"{commands.set_topic(name, -1)}, if the disks allow; the sizes now: {commands.show_sizes()}",
    )


def judge_clock(config: Mapping[str, str], retention: Retention | None, commands: Commands) -> Finding:
    """Judge the timestamps, from which retention by age counts."""
    name = "message.timestamp.type"
    limited = retention is None or retention.time is not None
    wanted = "LogAppendTime, where records are deleted by age" if limited else "any: nothing is deleted by age"
    if name not in config:
        return miss("topic", name, wanted)
    return compare(
        "topic",
        name,
        config[name],
        wanted,
        fits=not limited or config[name] == "LogAppendTime",
        otherwise="warning",
        told="age counts from the producers' clocks: a record sent late, or with a wrong time, is deleted early",
        change=f"{commands.set_topic(name, 'LogAppendTime')}; _timestamp is the broker's time from then on",
    )
