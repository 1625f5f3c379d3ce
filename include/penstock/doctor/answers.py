"""The answers of Kafka and the ledger about topics, brokers and positions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from confluent_kafka import TopicCollection

from penstock.doctor.facts import Cluster, Copies, Known, Topic
from penstock.errors import KafkaError
from penstock.kafka.admin import ANSWER_SECONDS, connect, read_brokers, read_config, read_log
from penstock.ledger import status
from penstock.ledger.roles import read_own_role
from penstock.target.postgres.table import target_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.kafka.admin import Client
    from penstock.ledger.connection import Connection
    from penstock.ledger.status import KnownPipeline


def read_known(connection: Connection, pipelines: Sequence[Pipeline]) -> dict[str, Known]:
    """Read the ledger's facts about each pipeline."""
    targets = [target_identifier(pipeline.target).as_string(None) for pipeline in pipelines]
    rows = status.read_known(connection, [pipeline.name for pipeline in pipelines], targets)
    known = {row.name: _gather_known(row) for row in rows}
    role = read_own_role(connection)
    return {
        pipeline.name: replace(known.get(pipeline.name, Known(None, None, {})), role=role) for pipeline in pipelines
    }


def _gather_known(row: KnownPipeline) -> Known:
    positions = {int(partition): position for partition, position in row.positions.items()}
    return Known(row.cluster_id, row.topic_id, positions, row.leaves)


def read_cluster(settings: Mapping[str, str]) -> Cluster:
    """Ask every broker whether it creates topics automatically."""
    return Cluster(read_brokers(settings, "auto.create.topics.enable"))


def read_topics(settings: Mapping[str, str], pipelines: Sequence[Pipeline]) -> dict[str, Topic]:
    """Read the topic of every pipeline; one KafkaError names every topic that could not be read."""
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
    partitions = admin.wait_for(described, f"the description of topic {topic}").partitions
    copies = {each.id: Copies(len(each.replicas), len(each.isr)) for each in partitions}
    return Topic(log, copies, read_config(admin, topic))
