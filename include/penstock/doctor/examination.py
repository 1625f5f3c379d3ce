"""The examination of a pipeline: every setting and fact that can lose records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.doctor import judgement
from penstock.doctor.answers import read_cluster, read_topics
from penstock.doctor.commands import Commands
from penstock.doctor.copies import judge_copies, judge_elections
from penstock.doctor.facts import Finding
from penstock.doctor.headroom import judge_headroom
from penstock.doctor.retention import find_need, judge_cleanup, judge_clock, judge_size, judge_time, read_retention
from penstock.doctor.transactions import judge_transactions
from penstock.doctor.unloaded import read_growth, read_headroom
from penstock.kafka.batches.open_transactions import find_open_transactions
from penstock.rust_package import find_package
from penstock.target.assignment import find_obstacle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.doctor.facts import Cluster, Known, Topic
    from penstock.doctor.headroom import Headroom
    from penstock.kafka.batches.open_transactions import OpenTransaction


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings about one pipeline."""

    name: str
    findings: tuple[Finding, ...]
    headroom: tuple[Headroom, ...]


def describe_path(pipeline: Pipeline, *, rust: bool) -> Finding:
    """Describe which path the records of a pipeline take on this machine. Both paths give the same rows."""
    obstacle = find_obstacle(pipeline) if rust else "PENSTOCK_RUST=off"
    if obstacle is None and find_package() is None:
        obstacle = "penstock_native is not installed"
    found = "rust" if obstacle is None else f"python: {obstacle}"
    return Finding("pipeline", "path of records", found, "rust or python", "ok")


def diagnose_broken(name: str, mistakes: str) -> Diagnosis:
    """Diagnose a pipeline with an invalid declaration: it loads no records, and Kafka will delete them."""
    finding = Finding(
        "pipeline", "declaration", None, "no mistake", "wrong", mistakes, f"correct it, then run penstock check {name}"
    )
    return Diagnosis(name, (finding,), ())


def examine_pipelines(
    known: Mapping[str, Known], kafka: Mapping[str, str], pipelines: Sequence[Pipeline]
) -> list[Diagnosis]:
    """Examine pipelines that share one Kafka connection."""
    cluster = read_cluster(kafka)
    topics = read_topics(kafka, pipelines)
    # A reader of uncommitted records does not wait for open transactions.
    held = find_open_transactions(kafka, [each.topic for each in pipelines if each.isolation == "read_committed"])
    return [
        _examine(kafka, cluster, pipeline, topics[pipeline.name], known[pipeline.name], held) for pipeline in pipelines
    ]


def _examine(
    kafka: Mapping[str, str],
    cluster: Cluster,
    pipeline: Pipeline,
    topic: Topic,
    known: Known,
    held: Sequence[OpenTransaction],
) -> Diagnosis:
    commands = Commands(kafka["bootstrap.servers"], pipeline.topic)
    need = find_need(pipeline.schedule, pipeline.headroom, pipeline.closed_time)
    retention = read_retention(topic.config)
    identity = judgement.judge_topic_id(pipeline, topic, known)
    findings = [
        *judge_copies(topic, len(cluster.auto_create), commands),
        judge_elections(topic, commands),
        judge_cleanup(topic.config, commands),
        judge_time(retention, need, commands),
        judge_size(retention, need, read_growth(kafka, pipeline, topic.log, retention), commands),
        judge_clock(topic.config, retention, commands),
        judgement.judge_creation(cluster),
        judge_transactions(_choose(held, pipeline), datetime.now(UTC), commands),
        identity,
    ]
    headroom: tuple[Headroom, ...] = ()
    if identity.level == "ok":  # offsets of another topic have no meaning in this one
        headroom = read_headroom(kafka, pipeline, topic.log, known, retention)
        findings += judgement.judge_positions(topic, known), judgement.judge_partitions(topic, known)
        findings.append(judge_headroom(headroom, need, commands))
    findings += (
        judgement.judge_isolation(pipeline),
        judgement.judge_leaves(pipeline, known),
        *(judgement.judge_role(known.role) if known.role else ()),
        *judgement.list_own_settings(),
        *judgement.list_producers_settings(),
    )
    return Diagnosis(pipeline.name, tuple(findings), headroom)


def examine_waiting(kafka: Mapping[str, str], pipeline: Pipeline, known: Known) -> Diagnosis:
    """Examine only the records that wait: when Kafka deletes them, and whether an open transaction holds them back."""
    topic = read_topics(kafka, [pipeline])[pipeline.name]
    commands = Commands(kafka["bootstrap.servers"], pipeline.topic)
    held = find_open_transactions(kafka, [pipeline.topic] if pipeline.isolation == "read_committed" else [])
    findings = [judge_transactions(held, datetime.now(UTC), commands)]
    headroom: tuple[Headroom, ...] = ()
    if judgement.judge_topic_id(pipeline, topic, known).level == "ok":
        headroom = read_headroom(kafka, pipeline, topic.log, known, read_retention(topic.config))
        findings.append(
            judge_headroom(headroom, find_need(pipeline.schedule, pipeline.headroom, pipeline.closed_time), commands)
        )
    return Diagnosis(pipeline.name, tuple(findings), headroom)


def _choose(held: Sequence[OpenTransaction], pipeline: Pipeline) -> list[OpenTransaction]:
    return [each for each in held if each.topic == pipeline.topic and pipeline.isolation == "read_committed"]
