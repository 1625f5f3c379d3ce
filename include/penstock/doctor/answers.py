"""What Kafka and the ledger say about topics, brokers and positions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from penstock.doctor.facts import Cluster, Copies, Known, Topic
from penstock.errors import KafkaError
from penstock.kafka.admin import ANSWER_SECONDS, connect, read_log
from penstock.ledger.roles import read_own_role
from penstock.ledger.statements import Room
from penstock.target.postgres.table import target_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.kafka.admin import Client
    from penstock.ledger.connection import Connection


def read_known(connection: Connection, pipelines: Sequence[Pipeline]) -> dict[str, Known]:
    """Read what the ledger knows of each pipeline's topic."""
    targets = [target_identifier(pipeline.target).as_string(None) for pipeline in pipelines]
    rows = Room("ledger/doctor").run(
        connection, "read_known", names=[pipeline.name for pipeline in pipelines], targets=targets
    )
    known = {row["name"]: _gather_known(row) for row in rows}
    role = read_own_role(connection)
    return {
        pipeline.name: replace(known.get(pipeline.name, Known(None, None, {})), role=role) for pipeline in pipelines
    }


def _gather_known(row: Mapping[str, Any]) -> Known:
    positions = {int(partition): position for partition, position in row["positions"].items()}
    return Known(row["cluster_id"], row["topic_id"], positions, row["leaves"])


def read_cluster(settings: Mapping[str, str]) -> Cluster:
    """Ask every broker whether it creates topics by itself."""
    admin = connect(settings)
    described = admin.wait_for(admin.describe_cluster(request_timeout=ANSWER_SECONDS), "asked which brokers there are")
    name = "auto.create.topics.enable"
    asked = {node.id: _ask_config(admin, ResourceType.BROKER, str(node.id)) for node in described.nodes}
    return Cluster({broker: _read_broker(admin, future, broker).get(name) for broker, future in asked.items()})


def read_topics(settings: Mapping[str, str], pipelines: Sequence[Pipeline]) -> dict[str, Topic]:
    """Read the topic of every pipeline; one KafkaError names all that could not be read."""
    admin = connect(settings)
    topics: dict[str, Topic] = {}
    errors: dict[str, KafkaError] = {}
    for pipeline in pipelines:
        try:
            topics[pipeline.name] = _read_topic(admin, settings, pipeline)
        except KafkaError as error:
            errors[pipeline.name] = error
    if errors:
        raise KafkaError(
            " ".join(dict.fromkeys(error.what for error in errors.values())),
            pipeline=", ".join(errors),
            next_step=next(iter(errors.values())).next_step,
        )
    return topics


def _read_topic(admin: Client, settings: Mapping[str, str], pipeline: Pipeline) -> Topic:
    topic = pipeline.topic
    log = read_log(settings, topic, pipeline.isolation)
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_SECONDS)[topic]
    partitions = admin.wait_for(described, f"asked about topic {topic}").partitions
    copies = {each.id: Copies(len(each.replicas), len(each.isr)) for each in partitions}
    return Topic(log, copies, _read_config(admin, topic))


def read_topic_config(settings: Mapping[str, str], topic: str) -> dict[str, str]:
    """Read the settings of a topic, those that it inherits included."""
    return _read_config(connect(settings), topic)


def _read_config(admin: Client, topic: str) -> dict[str, str]:
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
