"""The health of pipelines by the newest samples of their logs: the page judges as `penstock status`, without Kafka."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import IdentityError
from penstock.kafka.identity import refuse_other_identity
from penstock.ledger.overview import read_overviews
from penstock.ledger.status import read_pipelines
from penstock.model.health import Health, judge_broken
from penstock.model.log import PartitionLog, TopicLog
from penstock.model.plan import find_faults
from penstock.status.pipelines import Seen, judge_pipeline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.ledger.overview import OverviewRow
    from penstock.ledger.status import PipelineRow

# A sample is taken each minute. An older one is named with its age.
STALE = timedelta(minutes=5)
NO_SAMPLE = "the log was not sampled yet; the DAG penstock_sample samples it every minute"


@dataclass(frozen=True, slots=True)
class SampledStatus:
    """A pipeline as the newest sample shows it. `row` is None before its first plan."""

    name: str
    health: Health
    sample: OverviewRow
    row: PipelineRow | None

    @property
    def lag(self) -> int | None:
        """The offsets that are not loaded yet."""
        return self.sample.lag

    @property
    def oldest_seconds(self) -> float | None:
        """The age of the oldest record that is not loaded; never negative, because clocks differ."""
        if self.sample.lag == 0:
            return 0.0
        return None if self.sample.oldest_at is None else age(self.sample, self.sample.oldest_at)


def age(sample: OverviewRow, moment: datetime) -> float:
    """The seconds since a moment, by the clock of the database."""
    return round(max(0.0, (sample.now - moment).total_seconds()), 3)


def read_sampled(
    connection: Connection, pipelines: Sequence[Pipeline], broken: Mapping[str, str]
) -> dict[str, SampledStatus]:
    """Read the status of pipelines by their samples. `broken` holds the mistakes of invalid declarations by name."""
    names = [*(pipeline.name for pipeline in pipelines), *broken]
    samples = read_overviews(connection, names)
    rows = {row.name: row for row in read_pipelines(connection, names, count_gaps=False)}
    found = {pipeline.name: _judge(pipeline, samples[pipeline.name], rows.get(pipeline.name)) for pipeline in pipelines}
    for name, mistakes in broken.items():
        row = _count(rows.get(name), samples[name])
        found[name] = SampledStatus(name, judge_broken(name, mistakes), samples[name], row)
    return found


def _judge(pipeline: Pipeline, sample: OverviewRow, row: PipelineRow | None) -> SampledStatus:
    row = _count(row, sample)
    other_topic = _find_other_topic(pipeline, sample, row)
    faults = () if other_topic else find_faults(*_read_faulty(sample))
    unreachable = sample.error or ("" if sample.answered_at else NO_SAMPLE)
    seen = Seen(faults, sample.lag, unreachable, other_topic)
    health = judge_pipeline(pipeline, row, seen, _read_bad_target(sample))
    return SampledStatus(pipeline.name, _name_age(health, sample), sample, row)


def _count(row: PipelineRow | None, sample: OverviewRow) -> PipelineRow | None:
    """Add the gaps that the sampler has counted: to count them reads all of the coverage."""
    return None if row is None else replace(row, gaps=sample.gaps)


def _find_other_topic(pipeline: Pipeline, sample: OverviewRow, row: PipelineRow | None) -> str:
    if row is None or not (row.cluster_id and row.topic_id and sample.cluster_id and sample.topic_id):
        return ""
    if sample.is_adopted_since:
        return ""
    try:
        seen = TopicLog(sample.cluster_id, pipeline.topic, sample.topic_id, {})
        refuse_other_identity(pipeline, row.cluster_id, row.topic_id, seen)
    except IdentityError as error:
        return error.what
    return ""


def _read_faulty(sample: OverviewRow) -> tuple[dict[int, int], dict[int, PartitionLog]]:
    """The partitions whose position does not fit the sampled log."""
    faulty = sample.faulty or []
    positions = {each["partition"]: each["position"] for each in faulty if each["position"] is not None}
    logs = {
        each["partition"]: PartitionLog(each["log_start"], each["log_end"])
        for each in faulty
        if each["log_end"] is not None
    }
    return positions, logs


def _read_bad_target(sample: OverviewRow) -> Health | None:
    if sample.bad_target is None:
        return None
    return Health("bad_target", sample.bad_target, sample.bad_target_next_step or "")


def _name_age(health: Health, sample: OverviewRow) -> Health:
    """Say how old the sample is, if the sampler is late, and what to do if it has not come yet."""
    if health.cause == NO_SAMPLE:
        return replace(health, next_step=advice.AWAIT_SAMPLE)
    if sample.answered_at is None or sample.now - sample.answered_at < STALE:
        return health
    minutes = int((sample.now - sample.answered_at).total_seconds() // 60)
    return replace(health, cause=f"{health.cause} (the log was sampled {minutes:,} min ago)")
