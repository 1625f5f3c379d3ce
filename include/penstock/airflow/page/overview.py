"""The list of pipelines, and the head and the tiles of one pipeline, as documents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from penstock.airflow.page.documents import (
    Action,
    Eta,
    Generation,
    HeadroomTile,
    NewestLoad,
    OpenTransactionTile,
    PartitionFigures,
    PipelineEntry,
    PipelinePage,
    Pipelines,
    Point,
    QuarantineTile,
    RecentLoad,
    Tiles,
    VerificationTile,
)
from penstock.backfill.plan import PastLoad
from penstock.declaration.pipeline import Pipeline
from penstock.doctor.headroom import Headroom, count_hours, measure_headroom
from penstock.doctor.retention import read_retention
from penstock.ledger.backfill import read_durations
from penstock.ledger.overview import read_newest_verification, read_partitions, read_trend
from penstock.ledger.pipeline import find_pipeline
from penstock.model.log import PartitionLog
from penstock.status.samples import age, read_sampled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.errors import DeclarationError
    from penstock.ledger.connection import Connection
    from penstock.ledger.overview import NewestVerification, OverviewRow, PartitionRow
    from penstock.model.health import Health
    from penstock.status.samples import SampledStatus

MOST_PARTITIONS = 1_000
# A smaller difference of the lag is noise of the sample's moment.
TOLERANCE = 0.1
SQL = "select * from penstock.samples where pipeline = '{name}' order by partition;"


def describe_pipelines(connection: Connection, declared: Mapping[str, Pipeline | DeclarationError]) -> Pipelines:
    """Describe the given pipelines."""
    found = _read(connection, declared)
    entries = [PipelineEntry(**_describe(declared[name], status)) for name, status in sorted(found.items())]
    samples = [each.sampled_at for each in entries if each.sampled_at is not None]
    return Pipelines(now=datetime.now(UTC), sampled_at=min(samples, default=None), pipelines=entries)


def describe_pipeline(connection: Connection, name: str, declared: Pipeline | DeclarationError) -> PipelinePage:
    """Describe one pipeline with its tiles."""
    status = _read(connection, {name: declared})[name]
    partitions = read_partitions(connection, name)
    row = status.row
    generation = None
    if row and row.generation_id is not None and row.cluster_id is not None and row.topic_id is not None:
        generation = Generation(generation=row.generation_id, cluster_id=row.cluster_id, topic_id=row.topic_id)
    valid = declared if isinstance(declared, Pipeline) else None
    headroom = _measure_headroom(status.sample, partitions)
    return PipelinePage(
        **_describe(declared, status),
        description=valid and valid.description,
        generation=generation,
        since=row and (row.began_at or row.since),
        kafka=valid and valid.kafka,
        tiles=_make_tiles(connection, status, partitions, headroom),
        partitions=_list_partitions(status.sample, partitions),
        busy=status.sample.busy,
        sql=SQL.format(name=name),
    )


def _read(connection: Connection, declared: Mapping[str, Pipeline | DeclarationError]) -> dict[str, SampledStatus]:
    valid = [read for read in declared.values() if isinstance(read, Pipeline)]
    broken = {name: read.what for name, read in declared.items() if not isinstance(read, Pipeline)}
    return read_sampled(connection, valid, broken)


def _describe(declared: Pipeline | DeclarationError, status: SampledStatus) -> dict[str, Any]:
    """The fields of an entry of the list."""
    valid = declared if isinstance(declared, Pipeline) else None
    sample, health = status.sample, status.health
    recent = sample.recent or []
    newest = recent[0] if recent else None
    return {
        "name": status.name,
        "topic": valid and valid.topic,
        "target": valid and str(valid.target),
        "state": health.state,
        "cause": health.cause,
        "next_step": health.next_step,
        "action": choose_action(status.name, health, status),
        "lag": status.lag,
        "oldest_seconds": status.oldest_seconds,
        "trend": _compare(status.lag, sample.earlier_lag),
        "load": newest and NewestLoad(**{key: newest[key] for key in NewestLoad.model_fields}),
        "recent": [RecentLoad(**{key: each[key] for key in RecentLoad.model_fields}) for each in recent],
        "quarantined": sample.quarantined,
        "headroom_hours": _count_headroom(status),
        "schedule": valid and valid.times,
        "owner": valid and valid.owner,
        "tags": list(valid.tags) if valid else [],
        "sampled_at": sample.answered_at,
        "counted_at": sample.counted_at,
    }


def choose_action(name: str, health: Health, status: SampledStatus) -> Action | None:
    """The next step of a health as a button."""
    load = status.row.load_id if status.row else None
    backfill = {"dag_id": "penstock_backfill", "conf": {"pipeline": name}}
    accept = {"dag_id": "penstock_accept_loss", "conf": {"pipeline": name}}
    own = {"dag_id": name, "load": load}
    actions: dict[str, dict[str, Any]] = {
        "held": {"kind": "settle", "label": f"Settle load {load}", "dag_id": "penstock_settle", "load": load},
        "log_lost": {"kind": "accept_loss", "label": "Accept the loss", **accept},
        "loading": {"kind": "look", "label": "Look at its run", **own},
        "faulty": {"kind": "replace", "label": "Replace a range", **backfill},
        **{state: {"kind": "load", "label": "Load now", **own} for state in ("new", "behind", "failed", "stalled")},
    }
    if status.row and status.row.gaps:
        actions["ok"] = {"kind": "fill_gaps", "label": "Fill the gaps", **backfill}
    found = actions.get(health.state)
    return Action(**found) if found else None


def _compare(lag: int | None, earlier: int | None) -> Literal["rising", "falling", "steady"] | None:
    if lag is None or earlier is None:
        return None
    if abs(lag - earlier) <= TOLERANCE * max(lag, earlier):
        return "steady"
    return "rising" if lag > earlier else "falling"


def _count_headroom(status: SampledStatus) -> float | None:
    """The hours until the oldest record that is not loaded is deleted by age."""
    sample = status.sample
    if any(
        each["position"] is not None and each["position"] < (each["log_start"] or 0) for each in sample.faulty or []
    ):
        return 0.0
    retention = read_retention(sample.retention or {})
    if not sample.lag or sample.oldest_at is None or retention is None or retention.time is None:
        return None
    return count_hours(_to_ms(sample.oldest_at), retention.time, _to_ms(sample.now))


def _measure_headroom(sample: OverviewRow, partitions: Sequence[PartitionRow]) -> list[Headroom]:
    retention = read_retention(sample.retention or {})
    return [
        measure_headroom(
            each.partition,
            each.start,
            PartitionLog(each.log_start, each.log_end),
            retention,
            _to_ms(each.oldest_waiting) if each.oldest_waiting else None,
            _to_ms(sample.now),
        )
        for each in partitions
        if each.start is not None and each.log_start is not None and each.log_end is not None
    ]


def _to_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _make_tiles(
    connection: Connection, status: SampledStatus, partitions: Sequence[PartitionRow], headroom: Sequence[Headroom]
) -> Tiles:
    sample = status.sample
    newest = next((each for each in sample.recent or [] if each["published_at"]), None)
    return Tiles(
        lag=status.lag,
        oldest_seconds=status.oldest_seconds,
        trend=[
            Point(at=each.at, lag=each.lag, oldest_seconds=each.oldest_seconds)
            for each in read_trend(connection, status.name)
        ],
        eta=_estimate(connection, status),
        headroom=_choose_headroom(headroom),
        open_transaction=_find_open_transaction(sample, partitions),
        quarantined=QuarantineTile(
            records=sample.quarantined,
            loads=sample.quarantined_loads,
            new=(newest["quarantined"] or 0) if newest else 0,
        ),
        gaps=sample.gaps,
        lost=status.row.lost if status.row else 0,
        verification=_describe_verification(read_newest_verification(connection, status.name)),
    )


def _estimate(connection: Connection, status: SampledStatus) -> Eta:
    """Estimate when the pipeline has caught up, at the rate of its last loads."""
    if not status.lag:
        return Eta(at=None, formula="nothing waits" if status.lag == 0 else "the lag is not known")
    pipeline_id = find_pipeline(connection, status.name)
    past = [] if pipeline_id is None else read_durations(connection, pipeline_id)
    found = estimate_catch_up(status.lag, [PastLoad(each.offsets, each.seconds) for each in past])
    if found is None:
        return Eta(at=None, formula="no published load to take the rate from")
    seconds, rate = found
    formula = (
        f"now + {status.lag:,} offsets / {rate:,.0f} offsets a second, the rate of the last {len(past)} loads, without "
        "the time until the next load begins"
    )
    return Eta(at=status.sample.now + timedelta(seconds=seconds), formula=formula)


def estimate_catch_up(lag: int, past: Sequence[PastLoad]) -> tuple[float, float] | None:
    """The seconds that the lag takes at the rate of past loads, and that rate; None without a rate."""
    offsets, seconds = sum(load.offsets for load in past), sum(load.seconds for load in past)
    if not offsets or seconds <= 0:
        return None
    return lag * seconds / offsets, offsets / seconds


def _choose_headroom(measured: Sequence[Headroom]) -> HeadroomTile:
    """The partition whose records are deleted first, or the reason why no time is known."""
    known = [(each.hours, each) for each in measured if each.hours is not None]
    if known:
        _, least = min(known, key=lambda each: each[0])
        return HeadroomTile(hours=least.hours, partition=least.partition, told=least.told)
    unknown = next((each for each in measured if each.state in ("unknown", "unlimited")), None)
    if unknown:
        return HeadroomTile(hours=None, partition=unknown.partition, told=unknown.told)
    return HeadroomTile(hours=None, partition=None, told="everything is loaded" if measured else "not sampled yet")


def _find_open_transaction(sample: OverviewRow, partitions: Sequence[PartitionRow]) -> OpenTransactionTile | None:
    """The oldest open transaction. It holds back no reader of uncommitted records: those end at the high watermark."""
    held = [
        each
        for each in partitions
        if each.last_stable_offset is not None
        and each.high_watermark is not None
        and each.log_end == each.last_stable_offset < each.high_watermark
    ]
    if not held:
        return None
    oldest = min(held, key=lambda each: each.open_since or sample.now)
    return OpenTransactionTile(
        seconds=age(sample, oldest.open_since) if oldest.open_since else None,
        partition=oldest.partition,
        held_back=(oldest.high_watermark or 0) - (oldest.last_stable_offset or 0),
    )


def _describe_verification(found: NewestVerification | None) -> VerificationTile | None:
    if found is None:
        return None
    return VerificationTile(
        verification=found.verification_id,
        at=found.ended_at or found.began_at,
        state="running" if found.ended_at is None else "faulty" if found.faults else "proven",
        share=found.share,
        faults=found.faults,
    )


def _list_partitions(sample: OverviewRow, partitions: Sequence[PartitionRow]) -> list[PartitionFigures]:
    listed = sorted(partitions, key=lambda each: (-(each.lag or 0), each.partition))[:MOST_PARTITIONS]
    return [
        PartitionFigures(
            partition=each.partition,
            position=each.position,
            log_start=each.log_start,
            end=each.log_end,
            lag=each.lag,
            lag_seconds=0.0 if each.lag == 0 else age(sample, each.oldest_waiting) if each.oldest_waiting else None,
        )
        for each in listed
    ]
