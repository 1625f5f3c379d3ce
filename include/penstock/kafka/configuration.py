"""The configuration of topics and of brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import ConfigResource, ResourceType

from penstock.errors import KafkaError
from penstock.kafka.admin import ANSWER_SECONDS, connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.kafka.admin import Client


def read_brokers(settings: Mapping[str, str], name: str) -> dict[int, str | None]:
    """Read one setting from each broker; None if the broker does not show it to this user."""
    admin = connect(settings)
    described = admin.wait_for(admin.describe_cluster(request_timeout=ANSWER_SECONDS), "the list of brokers")
    futures = {node.id: _request_config(admin, ResourceType.BROKER, str(node.id)) for node in described.nodes}
    return {broker: _read_broker(admin, future, broker).get(name) for broker, future in futures.items()}


def read_topic_config(settings: Mapping[str, str], topic: str) -> dict[str, str]:
    """Read the settings of a topic, including inherited ones."""
    return read_config(connect(settings), topic)


def read_config(admin: Client, topic: str) -> dict[str, str]:
    """Read the settings of a topic through an existing client."""
    future = _request_config(admin, ResourceType.TOPIC, topic)
    return _to_values(admin.wait_for(future, f"the configuration of topic {topic} (needs the right DescribeConfigs)"))


def _request_config(admin: Client, kind: ResourceType, name: str) -> Any:  # noqa: ANN401 - the client has no type for it
    # One request for each resource, because each broker has to be asked itself.
    (future,) = admin.describe_configs([ConfigResource(kind, name)], request_timeout=ANSWER_SECONDS).values()
    return future


def _read_broker(admin: Client, future: Any, broker: int) -> dict[str, str]:  # noqa: ANN401
    """Read a broker's configuration; empty on an error, because many users may read topics but no broker settings."""
    try:
        return _to_values(admin.wait_for(future, f"the configuration of broker {broker}"))
    except KafkaError:
        return {}


def _to_values(config: Mapping[str, Any]) -> dict[str, str]:
    return {name: entry.value for name, entry in config.items() if entry.value is not None}
