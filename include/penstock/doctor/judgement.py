"""Whether a topic, its brokers, its producers and its pipeline are such that no record is lost: pure."""

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

# Merged by levels they are fewer than a hundred. Of 1,000, two queries at once take all locks there are by default.
MANY_LEAVES, TOO_MANY_LEAVES = 300, 1000
PRODUCERS = (
    ("acks", "all", "else records are acknowledged that a single broker has got, or none"),
    (
        "enable.idempotence",
        "true",
        "else a retry may write twice, or in another order; max.in.flight.requests.per.connection is up to 5 with it",
    ),
    ("retries", "2147483647", "else a broker that is away for a while costs records; delivery.timeout.ms is the limit"),
)


def judge_creation(cluster: Cluster) -> Finding:
    """A topic that comes back by itself hides that it was deleted."""
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
        told="a topic that somebody deletes comes back under another id, with other records under its offsets",
        change=f"auto.create.topics.enable=false in server.properties of the brokers {creating}; restart them in turn",
    )


def judge_topic_id(pipeline: Pipeline, topic: Topic, known: Known) -> Finding:
    """Offsets count within one topic of one cluster."""
    told = ""
    if known.cluster_id is not None and known.topic_id is not None:
        try:
            refuse_other_identity(pipeline, known.cluster_id, known.topic_id, topic.log)
        except IdentityError as error:
            told = error.what
    return compare(
        "topic",
        "topic id",
        topic.log.topic_id,
        known.topic_id or "any: nothing was planned yet",
        fits=not told,
        told=told,
        change=advice.resolve_hold("other_topic", pipeline.name),
    )


def judge_positions(topic: Topic, known: Known) -> Finding:
    """What the next load starts from must still be there."""
    faults = find_faults(known.positions, topic.log.partitions)
    return compare(
        "topic",
        "positions",
        name_ranges(faults) or "all within the log",
        "all within the log",
        fits=not faults,
        told="records that were not loaded are gone, or the log was cut; nothing is loaded meanwhile",
        change="find out what happened to the topic; `penstock status` says how to go on",
    )


def judge_partitions(topic: Topic, known: Known) -> Finding:
    """Partitions may come, and may not go."""
    new = topic.log.partitions.keys() - known.positions.keys()
    gone = known.positions.keys() - topic.log.partitions.keys()
    found = f"{len(topic.log.partitions)} in the topic, {len(known.positions)} in the ledger"
    told_new = f"; {name_partitions(sorted(new))}: new, loaded from the log start on" if new and known.positions else ""
    return compare(
        "topic",
        "partitions",
        found + told_new,
        "all that the ledger knows",
        fits=not gone,
        told=f"{name_partitions(sorted(gone))}: gone from the topic",
        change="find out who changed the topic; Kafka itself never takes partitions away",
    )


def judge_leaves(pipeline: Pipeline, known: Known) -> Finding:
    """A query locks every leaf of the target, and PostgreSQL has room for some thousand locks in all."""
    return compare(
        "pipeline",
        "leaves of the target",
        str(known.leaves),
        f"{MANY_LEAVES} or fewer",
        fits=known.leaves <= MANY_LEAVES,
        otherwise="warning" if known.leaves <= TOO_MANY_LEAVES else "wrong",
        told="nobody merges them: queries get slower, and with some thousand PostgreSQL runs out of locks",
        change=f"`penstock maintain {pipeline.name}`, every day; in Airflow, let the DAG penstock_maintenance run",
    )


def judge_isolation(pipeline: Pipeline) -> Finding:
    """What an open transaction wrote may still be aborted."""
    return compare(
        "pipeline",
        "isolation",
        pipeline.isolation,
        "read_committed",
        fits=pipeline.isolation == "read_committed",
        otherwise="warning",
        told="records of aborted transactions are loaded as if they counted",
        change=f"isolation: read_committed in the declaration of {pipeline.name}",
    )


def judge_role(role: OwnRole) -> Iterator[Finding]:
    """A role that may do anything makes every mistake of a check or a declaration a matter of the whole server."""
    yield compare(
        "database",
        "role of PENSTOCK_DB",
        f"{role.name}, a superuser" if role.is_superuser else role.name,
        "a member of penstock_loader that is not a superuser",
        fits=not role.is_superuser,
        otherwise="warning",
        told="the checks of a declaration may hold SQL, which then can read files of the server",
        change=GIVE_ROLES,
    )
    yield compare(
        "database",
        "right to see snapshots",
        "pg_read_all_stats" if role.sees_snapshots else "none",
        "pg_read_all_stats",
        fits=role.sees_snapshots,
        otherwise="warning",
        told="no leaf is merged, because a merge could show a reader rows newer than its snapshot",
        change=f"{role.grant_of_stats}; as a superuser",
    )


def list_own_settings() -> Iterator[Finding]:
    """What Penstock sees to by itself."""
    yield Finding("pipeline", "enable.auto.commit", "false: positions are kept in the ledger", "false", "ok")


def list_producers_settings() -> Iterator[Finding]:
    """What only producers know. It is never called ok, for nobody looked."""
    for setting, wanted, why in PRODUCERS:
        told = f"Kafka lets nobody read it; {why}"
        change = f"{setting}={wanted} in every producer of the topic; see to it that no failed send is passed over"
        yield Finding("producers", setting, None, wanted, "warning", told, change)
