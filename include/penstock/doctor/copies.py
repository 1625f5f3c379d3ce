"""Judges whether every record has enough copies. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.doctor.facts import compare, miss
from penstock.errors import name_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.doctor.commands import Commands
    from penstock.doctor.facts import Copies, Finding, Topic

ENOUGH_COPIES, ENOUGH_IN_SYNC = 3, 2


def judge_copies(topic: Topic, brokers: int, commands: Commands) -> Iterator[Finding]:
    """Judge the number of copies, and how many of them a record must reach before it is acknowledged."""
    copies = min((each.replicas for each in topic.copies.values()), default=0)
    yield judge_replication(topic.copies, brokers, commands)
    yield judge_in_sync(topic.copies, commands)
    least = topic.config.get("min.insync.replicas")
    if least is None:
        yield miss("topic", "min.insync.replicas", f"{ENOUGH_IN_SYNC} or more, below the replication factor")
        return
    yield judge_least_in_sync(int(least), copies, commands)
    yield judge_distance(int(least), copies, commands)


def judge_replication(copies: Mapping[int, Copies], brokers: int, commands: Commands) -> Finding:
    """Judge the replication factor of every partition."""
    counts = sorted({each.replicas for each in copies.values()}) or [0]
    few = name_partitions([number for number, each in copies.items() if each.replicas < ENOUGH_COPIES])
    brokers_first = f"add brokers until there are {ENOUGH_COPIES} (there are {brokers}); then "
    return compare(
        "topic",
        "replication.factor",
        " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))),
        f"{ENOUGH_COPIES} or more",
        fits=counts[0] >= ENOUGH_COPIES,
        told=f"{few}: the loss of one or two brokers loses records",
        change=(brokers_first if brokers < ENOUGH_COPIES else "")
        + f"name {ENOUGH_COPIES} brokers for each partition in replicas.json, and {commands.move_replicas()}",
    )


def judge_in_sync(copies: Mapping[int, Copies], commands: Commands) -> Finding:
    """Judge the replicas in sync. A lagging replica does not protect the records that it has not copied yet."""
    lagging = {number: each for number, each in copies.items() if each.in_sync < each.replicas}
    fewest = min((each.in_sync for each in lagging.values()), default=0)
    in_danger = fewest < ENOUGH_IN_SYNC
    risk = "the loss of one more broker loses records" if in_danger else "a broker is down or slow"
    return compare(
        "topic",
        "in-sync replicas",
        f"only {fewest} in sync at worst, in {name_partitions(lagging)}" if lagging else "all",
        "all replicas of all partitions",
        fits=not lagging,
        otherwise="wrong" if in_danger else "warning",
        told=risk,
        change=f"start the missing brokers: {commands.describe_lagging()}",
    )


def judge_least_in_sync(least: int, copies: int, commands: Commands) -> Finding:
    """Judge min.insync.replicas. With 1, a producer gets its acknowledgement when a single broker has the record."""
    # With too few copies, the command alone would make the brokers refuse every producer.
    copies_first = "raise the replication factor first; then "
    return compare(
        "topic",
        "min.insync.replicas",
        str(least),
        f"{ENOUGH_IN_SYNC} or more",
        fits=least >= ENOUGH_IN_SYNC,
        told="a record is acknowledged when one broker has it, and is lost with that broker",
        change=(copies_first if copies < ENOUGH_COPIES else "")
        + commands.set_topic("min.insync.replicas", ENOUGH_IN_SYNC),
    )


def judge_distance(least: int, copies: int, commands: Commands) -> Finding:
    """Judge whether producers can still write while one broker is down."""
    room = copies > ENOUGH_IN_SYNC
    return compare(
        "topic",
        "replicas > min.insync.replicas",
        f"{copies} and {least}",
        "the first greater than the second",
        fits=copies > least,
        told="while one broker is down, producers with acks=all are refused, and may drop their records",
        change=commands.set_topic("min.insync.replicas", copies - 1) if room else "raise the replication factor first",
    )


def judge_elections(topic: Topic, commands: Commands) -> Finding:
    """Judge unclean leader elections. A leader that was not in sync truncates the log to the records that it has."""
    name = "unclean.leader.election.enable"
    found = topic.config.get(name)
    if found is None:
        return miss("topic", name, "false")
    return compare(
        "topic",
        name,
        found,
        "false",
        fits=found == "false",
        told="a lagging broker may become leader, and the records that it does not have are lost, acknowledged or not",
        change=commands.set_topic(name, "false"),
    )
