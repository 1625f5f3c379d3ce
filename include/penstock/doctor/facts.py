"""Facts about topics, brokers and the ledger, and findings about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.ledger.roles import OwnRole
    from penstock.model.log import TopicLog

Level = Literal["ok", "warning", "wrong"]
Scope = Literal["topic", "brokers", "producers", "pipeline", "database"]
NOT_READ = "Kafka does not show this setting (another kind of broker, or no right to describe the configuration)"


@dataclass(frozen=True, slots=True)
class Copies:
    """How many replicas a partition has, and how many of them are in sync."""

    replicas: int
    in_sync: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers, each with its auto.create.topics.enable; None where the user may not read the setting."""

    auto_create: Mapping[int, str | None]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its settings, inherited ones included."""

    log: TopicLog
    copies: Mapping[int, Copies]
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Known:
    """The ledger's facts about a pipeline: its topic, its positions, the leaves of its target, and the own role.

    Empty before the first plan.
    """

    cluster_id: str | None
    topic_id: str | None
    positions: Mapping[int, int]
    leaves: int = 0
    role: OwnRole | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One examined setting. `found` is None if it cannot be read; a fitting setting has no `told` and no `change`."""

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
    """Make a finding; a fitting one has no message and no change."""
    return Finding(
        scope, setting, found, wanted, "ok" if fits else otherwise, "" if fits else told, "" if fits else change
    )


def miss(scope: Scope, setting: str, wanted: str) -> Finding:
    """Make a finding about a setting that could not be read; its level is never ok."""
    return Finding(scope, setting, None, wanted, "warning", NOT_READ, "read the setting on the brokers")
