"""Judges whether brokers, topic, producers, pipeline and role can lose records. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import advice
from penstock.doctor.facts import Finding, compare, miss
from penstock.errors import IdentityError, name_partitions, name_ranges
from penstock.kafka.identity import refuse_other_identity
from penstock.ledger.roles import GIVE_ROLES
from penstock.model.plan import find_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.declaration.pipeline import Pipeline
    from penstock.doctor.facts import Cluster, Known, Topic
    from penstock.ledger.roles import OwnRole

# Merging by levels keeps fewer than 100 leaves. With 1,000 leaves, two concurrent queries take all locks of a default
# PostgreSQL.
MANY_LEAVES, TOO_MANY_LEAVES = 300, 1000
PRODUCERS = (
    ("acks", "all", "without it, a record is acknowledged when one broker has it, or none"),
    (
        "enable.idempotence",
        "true",
        (
            "without it, a retry may write a record twice or out of order; "
            "max.in.flight.requests.per.connection may be up to 5"
        ),
    ),
    (
        "retries",
        "2147483647",
        "without it, a broker that is down for a while loses records; delivery.timeout.ms is the limit",
    ),
)


def judge_creation(cluster: Cluster) -> Finding:
    """Judge automatic creation of topics, which hides that a topic was deleted."""
    found = {value for value in cluster.auto_create.values() if value is not None}
    name, wanted = "auto.create.topics.enable", "false on all brokers"
    if not found:
        return miss("brokers", name, wanted)
    creating = ", ".join(str(broker) for broker, value in sorted(cluster.auto_create.items()) if value != "false")
    return compare(
        "brokers",
        name,
        " and ".join(sorted(found)),
        wanted,
        fits=not creating,
        otherwise="warning",
        told="a deleted topic is created again with another id, and with other records at its offsets",
        change=f"auto.create.topics.enable=false in server.properties of the brokers {creating}; restart them in turn",
    )


def judge_topic_id(pipeline: Pipeline, topic: Topic, known: Known) -> Finding:
    """Judge whether the topic is the one that was loaded so far."""
    difference = ""
    if known.cluster_id is not None and known.topic_id is not None:
        try:
            refuse_other_identity(pipeline, known.cluster_id, known.topic_id, topic.log)
        except IdentityError as error:
            difference = error.what
    return compare(
        "topic",
        "topic id",
        topic.log.topic_id,
        known.topic_id or "any: nothing was planned yet",
        fits=not difference,
        told=difference,
        change=advice.resolve_hold("other_topic", pipeline.name),
    )


def judge_positions(topic: Topic, known: Known) -> Finding:
    """Judge whether the log still holds the positions."""
    faults = find_faults(known.positions, topic.log.partitions)
    return compare(
        "topic",
        "positions",
        name_ranges(faults) or "all within the log",
        "all within the log",
        fits=not faults,
        told="records were deleted before they were loaded, or the log was truncated; the pipeline loads nothing",
        change="find out what happened to the topic; `penstock status` shows the next step",
    )


def judge_partitions(topic: Topic, known: Known) -> Finding:
    """Judge whether the topic still has every partition that was loaded."""
    new = topic.log.partitions.keys() - known.positions.keys()
    missing = known.positions.keys() - topic.log.partitions.keys()
    found = f"{len(topic.log.partitions)} in the topic, {len(known.positions)} in the ledger"
    added = f"; {name_partitions(sorted(new))}: new, loaded from the log start" if new and known.positions else ""
    return compare(
        "topic",
        "partitions",
        found + added,
        "all that the ledger knows",
        fits=not missing,
        told=f"{name_partitions(sorted(missing))}: missing in the topic",
        change="find out who changed the topic; Kafka never removes partitions",
    )


def judge_leaves(pipeline: Pipeline, known: Known) -> Finding:
    """Judge the number of leaves: a query locks every leaf, and PostgreSQL has some thousand locks in all."""
    return compare(
        "pipeline",
        "leaves of the target",
        str(known.leaves),
        f"{MANY_LEAVES} or fewer",
        fits=known.leaves <= MANY_LEAVES,
        otherwise="warning" if known.leaves <= TOO_MANY_LEAVES else "wrong",
        told="leaves are not merged: queries get slower, and with some thousand leaves PostgreSQL runs out of locks",
        change=f"`penstock maintain {pipeline.name}`, every day; in Airflow, let the DAG penstock_maintenance run",
    )


def judge_isolation(pipeline: Pipeline) -> Finding:
    """Judge the isolation: an open transaction may still be aborted."""
    return compare(
        "pipeline",
        "isolation",
        pipeline.isolation,
        "read_committed",
        fits=pipeline.isolation == "read_committed",
        otherwise="warning",
        told="records of aborted transactions are loaded as if they were committed",
        change=f"isolation: read_committed in the declaration of {pipeline.name}",
    )


def judge_role(role: OwnRole) -> Iterator[Finding]:
    """Judge the role: with a superuser, a mistake in a check or a declaration can harm the whole server."""
    yield compare(
        "database",
        "role of PENSTOCK_DB",
        f"{role.name}, a superuser" if role.is_superuser else role.name,
        "a member of penstock_loader that is not a superuser",
        fits=not role.is_superuser,
        otherwise="warning",
        told="a check of a declaration may hold SQL, which can then read files of the server",
        change=GIVE_ROLES,
    )
    yield compare(
        "database",
        "right to see snapshots",
        "pg_read_all_stats" if role.sees_snapshots else "none",
        "pg_read_all_stats",
        fits=role.sees_snapshots,
        otherwise="warning",
        told="leaves are not merged, because a merge could show a reader rows newer than its snapshot",
        change=f"{role.grant_of_stats}; as a superuser",
    )


def list_own_settings() -> Iterator[Finding]:
    """List the setting that Penstock controls itself."""
    yield Finding("pipeline", "enable.auto.commit", "false: positions are kept in the ledger", "false", "ok")


def list_producers_settings() -> Iterator[Finding]:
    """List settings that only the producers know. Their level is never ok, because Kafka does not show them."""
    for setting, wanted, why in PRODUCERS:
        reason = f"Kafka does not show it; {why}"
        change = f"{setting}={wanted} in every producer of the topic; handle every failed send"
        yield Finding("producers", setting, None, wanted, "warning", reason, change)
