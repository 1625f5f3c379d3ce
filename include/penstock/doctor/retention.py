"""Whether the topic keeps its records until the pipeline has surely loaded them: pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.doctor.facts import Finding, compare, miss
from penstock.doctor.intervals import HOUR, find_longest_interval, write_duration, write_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.doctor.commands import Commands

INTERVALS = 4
# A load that is held, or that fails for a reason of its own, waits for a person: over a weekend, too.
PATIENCE = timedelta(days=3)
# Some write the greatest number there is for "no limit".
ENDLESS = timedelta(days=365_000)
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Retention:
    """What a topic deletes: records of an age, of what is over a size, of what a later one of its key replaces."""

    time: timedelta | None
    size: int | None
    compacts: bool


@dataclass(frozen=True, slots=True)
class Need:
    """How long a pipeline needs its records kept. `interval` is None if the schedule does not tell."""

    interval: timedelta | None
    time: timedelta
    told: str


def read_retention(config: Mapping[str, str]) -> Retention | None:
    """Read it from the topic's settings; None if Kafka does not tell them all."""
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


def find_need(schedule: str | None) -> Need:
    """How long records must be kept: for some intervals of the schedule, and for as long as a person may need."""
    interval = find_longest_interval(schedule)
    if interval is None:
        by_hand = "loads are started by hand" if schedule in (None, "@once") else f"the intervals of {schedule} vary"
        return Need(None, PATIENCE, by_hand)
    if INTERVALS * interval < PATIENCE:
        return Need(interval, PATIENCE, f"{write_duration(PATIENCE)}, for a load that waits for a person")
    return Need(interval, INTERVALS * interval, f"{INTERVALS} intervals of {schedule}")


def judge_cleanup(config: Mapping[str, str], commands: Commands) -> Finding:
    """Compaction takes records out of the log one by one."""
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
        told="records that a later one of the same key replaces vanish before they are loaded, if the load is late",
        change=f"{commands.set_topic(name, 'delete')}, if every record counts and not only the last of each key",
    )


def judge_time(retention: Retention | None, need: Need, commands: Commands) -> Finding:
    """Records must outlive some loads that fail, and the time a person needs."""
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
        # Less than two intervals: one load that fails is enough.
        otherwise="wrong" if retention.time < 2 * need.interval else "warning",
        told=f"a load that fails, or is held, may cost records; needed: {need.told}",
        change=commands.set_topic(name, need.time // MILLISECOND),
    )


def _judge_without_schedule(time: timedelta, wanted: str, need: Need, commands: Commands) -> Finding:
    found = write_duration(time)
    told = f"{need.told}: from one load to the next there must never pass more than {found}"
    change = f"{commands.set_topic('retention.ms', -1)}, or declare a schedule whose intervals are known"
    return Finding("topic", "retention.ms", found, wanted, "warning", told, change)


def judge_size(retention: Retention | None, need: Need, growth: float | None, commands: Commands) -> Finding:
    """How long a size lasts depends on what producers send; the client cannot ask for the size of a log."""
    name, wanted = "retention.bytes", "-1: a size gives no time"
    if retention is None:
        return miss("topic", name, wanted)
    told = "the size of the log cannot be read by this client, so nobody knows how long this lasts"
    if retention.size is not None and growth:
        average = write_number(retention.size / (growth * (need.time / HOUR)))
        told = (
            f"at {write_number(growth)} offsets an hour, as in the fastest partition, it lasts "
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
        told=told,
        change=f"{commands.set_topic(name, -1)}, if the disks allow; the sizes now: {commands.show_sizes()}",
    )


def judge_clock(config: Mapping[str, str], retention: Retention | None, commands: Commands) -> Finding:
    """Retention counts from the timestamps, and those may come from the producers."""
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
        told="age counts from the producers' clocks: records that are sent late, or with a wrong time, go early",
        change=f"{commands.set_topic(name, 'LogAppendTime')}; _timestamp is the broker's time from then on",
    )
