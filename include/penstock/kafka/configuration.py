"""The configuration of topics and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import ConfigResource, ResourceType

from penstock.errors import KafkaError
from penstock.kafka.admin import ANSWER_SECONDS, connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.kafka.admin import Client


def read_brokers(settings: Mapping[str, str], name: str) -> dict[int, str | None]:
    """Read one setting of every broker, each of which is asked itself; None where it is kept from this user."""
    admin = connect(settings)
    described = admin.wait_for(admin.describe_cluster(request_timeout=ANSWER_SECONDS), "asked which brokers there are")
    asked = {node.id: _ask_config(admin, ResourceType.BROKER, str(node.id)) for node in described.nodes}
    return {broker: _read_broker(admin, future, broker).get(name) for broker, future in asked.items()}


def read_topic_config(settings: Mapping[str, str], topic: str) -> dict[str, str]:
    """Read the settings of a topic, those that it inherits included."""
    return read_config(connect(settings), topic)


def read_config(admin: Client, topic: str) -> dict[str, str]:
    """The same by a client that is there."""
    asked = _ask_config(admin, ResourceType.TOPIC, topic)
    return _to_values(
        admin.wait_for(asked, f"asked for the configuration of topic {topic} (the right DescribeConfigs)")
    )


def _ask_config(admin: Client, kind: ResourceType, name: str) -> Any:  # noqa: ANN401 - the client has no type for it
    # One question a resource: each broker is asked itself.
    (future,) = admin.describe_configs([ConfigResource(kind, name)], request_timeout=ANSWER_SECONDS).values()
    return future


def _read_broker(admin: Client, future: Any, broker: int) -> dict[str, str]:  # noqa: ANN401
    """A broker's configuration is often kept from those who may read topics: that is no reason to stop."""
    try:
        return _to_values(admin.wait_for(future, f"asked for the configuration of broker {broker}"))
    except KafkaError:
        return {}


def _to_values(config: Mapping[str, Any]) -> dict[str, str]:
    return {name: entry.value for name, entry in config.items() if entry.value is not None}
