"""Whether a topic is still the one that was loaded: compared by the ids of cluster and topic, not by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import IdentityError
from penstock.kafka.admin import read_identity
from penstock.model.log import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.load import Load
    from penstock.model.log import TopicLog


def refuse_other_identity(pipeline: Pipeline, cluster_id: str, topic_id: str, log: TopicLog) -> None:
    """Stop if the topic with this name is not the one that was loaded before."""
    changed = describe_change(pipeline.topic, Identity(cluster_id, topic_id), log.identity)
    if changed:
        raise IdentityError(
            f"not the topic that was loaded before: {changed}. Its offsets are other records; nothing is loaded.",
            pipeline=pipeline.name,
            next_step=advice.resolve_hold("other_topic", pipeline.name),
        )


def refuse_changed_topic(kafka: Mapping[str, str], load: Load) -> None:
    """Stop if the topic is not the one that the load was planned on. The staged records may be of either topic."""
    topic = load.declaration.topic
    changed = describe_change(topic, Identity(load.cluster_id, load.topic_id), read_identity(kafka, topic))
    if changed:
        raise IdentityError(
            f"the topic has changed since the load was planned: {changed}. Nothing of the load is published.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.resolve_hold("other_topic", load.pipeline),
        )


def describe_change(topic: str, known: Identity, found: Identity) -> str:
    """Describe how a topic differs from the known one; empty if it is the same."""
    if found.cluster_id != known.cluster_id:
        return f"the cluster is {found.cluster_id}, and was {known.cluster_id} before"
    if found.topic_id != known.topic_id:
        return f"topic {topic} was deleted and created again: its id is {found.topic_id}, and was {known.topic_id}"
    return ""
