"""How much stands behind open transactions: by the ends of the log alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import KafkaError, name_partitions
from penstock.kafka.admin import read_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.log import Isolation, TopicLog


def describe_held_back(settings: Mapping[str, str], log: TopicLog, isolation: Isolation) -> str:
    """Say how many offsets a load of committed records cannot have yet; nothing where none is held back."""
    if isolation == "read_uncommitted":
        return ""
    try:
        ends = read_log(settings, log.topic, "read_uncommitted").partitions
    except KafkaError:  # that nothing is new is known without it
        return ""
    held = {
        number: ends[number].end - partition.end
        for number, partition in log.partitions.items()
        if number in ends and ends[number].end > partition.end
    }
    if not held:
        return ""
    return (
        f" {sum(held.values())} offsets of {name_partitions(held)} stand behind open transactions; `penstock doctor` "
        "says whose they are."
    )
