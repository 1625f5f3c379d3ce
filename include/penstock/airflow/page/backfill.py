"""The preview of a backfill as a document: the loads that it would make, before the button."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from penstock.airflow.page.documents import BackfillPreview
from penstock.airflow.page.panels import describe_range
from penstock.backfill.preview import preview_by_samples
from penstock.backfill.request import Request, read_selection
from penstock.errors import WrongUseError
from penstock.ledger.overview import read_overviews, read_partitions
from penstock.ledger.pipeline import find_pipeline
from penstock.model.log import PartitionLog
from penstock.model.times import read_time

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.backfill.plan import Draft
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection

MOST_SHOWN = 100


def describe_preview(
    connection: Connection,
    pipeline: Pipeline,
    *,
    ranges: str | None = None,
    from_time: str | None = None,
    until_time: str | None = None,
    gaps: bool = False,
    replace: bool = False,
    records_per_load: int | None = None,
) -> BackfillPreview:
    """Describe the loads of a request, or why it is refused. `ranges` are partition:from-until, separated by commas."""
    sample = read_overviews(connection, [pipeline.name])[pipeline.name]
    try:
        selection = read_selection(
            ranges.split(",") if ranges else [],
            read_time(from_time) if from_time else None,
            read_time(until_time) if until_time else None,
            gaps=gaps,
        )
        partitions = read_partitions(connection, pipeline.name)
        drafted = preview_by_samples(
            connection,
            pipeline,
            find_pipeline(connection, pipeline.name),
            Request(selection, "", replace, records_per_load),
            {
                each.partition: PartitionLog(each.log_start, each.log_end)
                for each in partitions
                if each.log_start is not None and each.log_end is not None
            },
        )
    except WrongUseError as error:
        return _make(pipeline.name, "refused", sample.answered_at, error=error.what, next_step=error.next_step)
    return _describe(drafted, sample.answered_at)


def _describe(drafted: Draft, sampled_at: datetime | None) -> BackfillPreview:
    choice = drafted.choice
    return _make(
        drafted.pipeline,
        "preview" if drafted.loads else "empty",
        sampled_at,
        offsets=drafted.offsets,
        seconds=drafted.seconds,
        ranges=[describe_range(each) for each in choice.ranges],
        loads=[[describe_range(each) for each in ranges] for ranges in drafted.loads[:MOST_SHOWN]],
        load_count=len(drafted.loads),
        replaced=[describe_range(each.range, load=each.load) for each in choice.replaced[:MOST_SHOWN]],
        planned=[describe_range(each.range, load=each.load, backfill=each.backfill) for each in choice.planned],
        gone=[describe_range(each) for each in choice.deleted],
    )


def _make(
    pipeline: str, state: Literal["preview", "empty", "refused"], sampled_at: datetime | None, **known: object
) -> BackfillPreview:
    fields: dict[str, Any] = {
        **dict.fromkeys(("seconds", "error", "next_step")),
        **dict.fromkeys(("offsets", "load_count"), 0),
        **{name: [] for name in ("ranges", "loads", "replaced", "planned", "gone")},
        **known,
    }
    return BackfillPreview(pipeline=pipeline, state=state, sampled_at=sampled_at, **fields)
