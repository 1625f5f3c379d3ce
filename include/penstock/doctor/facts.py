"""What was read of Kafka and of the ledger, and what was found in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.ledger.roles import OwnRole
    from penstock.model.log import TopicLog

Level = Literal["ok", "warning", "wrong"]
Scope = Literal["topic", "brokers", "producers", "pipeline", "database"]
NOT_READ = "Kafka does not tell it (another kind of broker, or no right to describe the configuration)"


@dataclass(frozen=True, slots=True)
class Copies:
    """How many replicas a partition has, and how many of them are in sync."""

    replicas: int
    in_sync: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers, each with its auto.create.topics.enable; None where that may not be read."""

    auto_create: Mapping[int, str | None]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its settings, those that it inherits included."""

    log: TopicLog
    copies: Mapping[int, Copies]
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Known:
    """The database's side: which topic was loaded so far, the positions, how many leaves the target has, and the
    role that asks.

    Empty before the first plan.
    """

    cluster_id: str | None
    topic_id: str | None
    positions: Mapping[int, int]
    leaves: int = 0
    role: OwnRole | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `found` is None where it cannot be read; what fits has nothing told, no change."""

    scope: Scope
    setting: str
    found: str | None
    wanted: str
    level: Level
    told: str = ""
    change: str = ""


def compare(
    scope: Scope,
    setting: str,
    found: str | None,
    wanted: str,
    *,
    fits: bool,
    told: str,
    change: str,
    otherwise: Level = "wrong",
) -> Finding:
    """A finding; one that fits has nothing to tell and nothing to change."""
    return Finding(
        scope, setting, found, wanted, "ok" if fits else otherwise, "" if fits else told, "" if fits else change
    )


def miss(scope: Scope, setting: str, wanted: str) -> Finding:
    """A finding about what could not be read: nobody may call it ok."""
    return Finding(scope, setting, None, wanted, "warning", NOT_READ, "look it up at the brokers")
