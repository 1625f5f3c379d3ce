"""Compaction on request of a test: the topic is compacted at once, and not before."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock_stack.broker import Broker

# The log cleaner compacts no segment before the test calls `compacting`.
COMPACTED = {
    "cleanup_policy": "compact", "min_compaction_lag_ms": "86400000", "segment_ms": "50",
    "min_cleanable_dirty_ratio": "0.001", "delete_retention_ms": "0",
}  # fmt: skip


@contextmanager
def compacting(kafka: Broker, topic: str) -> Iterator[None]:
    """Let the log cleaner compact a topic, and check it often; it compacts only segments that are no longer written."""
    alter(kafka.bootstrap, ResourceType.TOPIC, topic, "min.compaction.lag.ms", "0")
    alter(kafka.bootstrap, ResourceType.BROKER, str(kafka.node), "log.cleaner.backoff.ms", "50")
    try:
        yield
    finally:
        alter(kafka.bootstrap, ResourceType.BROKER, str(kafka.node), "log.cleaner.backoff.ms", None)


def alter(bootstrap: str, kind: ResourceType, name: str, setting: str, value: str | None) -> None:
    """Change a setting of a topic or a broker; None resets it."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    change = ConfigEntry(setting, value, incremental_operation=operation)
    resource = ConfigResource(kind, name, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)
