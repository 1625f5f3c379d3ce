"""The watch over pipelines that no run reports: overdue loads, stuck transactions, and records about to be deleted."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from penstock import advice
from penstock.declaration.durations import parse_duration
from penstock.doctor.answers import read_known
from penstock.doctor.examination import examine_waiting
from penstock.doctor.incidents import see_urgent
from penstock.doctor.intervals import find_longest_interval, write_duration
from penstock.errors import PenstockError
from penstock.ledger.connection import open_ledger
from penstock.ledger.incident import find_overdue, see_incident
from penstock.model.incident import LIVE, IncidentKind, Sighting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from penstock.declaration.alerts import Route
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.ledger.incident import Overdue

    # The settings of the Kafka client of a pipeline.
    FindKafka = Callable[[Pipeline], Mapping[str, str]]

# After so many failed requests in a row, a cluster is left alone until the next watch: each waits for a time-out.
MOST_FAILURES = 3


def watch_pipelines(uri: str, find_kafka: FindKafka, pipelines: Sequence[Pipeline]) -> list[PenstockError]:
    """Record the incidents of pipelines that were planned before, and end those that are over.

    The errors of pipelines that could not be examined are returned: they stop no other pipeline.
    """
    errors = []
    failures: dict[str, int] = {}
    with closing(open_ledger(uri)) as connection:
        see_overdue(connection, pipelines)
        connection.commit()
        known = read_known(connection, pipelines)
        connection.commit()
        for pipeline in pipelines:
            if not known[pipeline.name].positions or failures.get(pipeline.kafka, 0) >= MOST_FAILURES:
                continue
            try:
                diagnosis = examine_waiting(find_kafka(pipeline), pipeline, known[pipeline.name])
            except PenstockError as error:
                errors.append(error.fill(pipeline.name))
                failures[pipeline.kafka] = failures.get(pipeline.kafka, 0) + 1
                continue
            failures[pipeline.kafka] = 0
            see_urgent(connection, pipeline, diagnosis)
            connection.commit()
    return errors


def see_overdue(connection: Connection, pipelines: Sequence[Pipeline]) -> None:
    """Record the pipelines whose last load, or last run that found nothing to load, is too long ago."""
    limits = {pipeline.name: limit for pipeline in pipelines if (limit := find_limit(pipeline))}
    named = {pipeline.name: pipeline for pipeline in pipelines}
    for overdue in find_overdue(connection, limits):
        pipeline = named[overdue.pipeline]
        see_incident(connection, _describe(pipeline, overdue, limits[pipeline.name]), pipeline.alerts)


def see_late_run(
    connection: Connection, pipeline: str, routes: Sequence[Route], deadline: timedelta, run: str, link: str
) -> bool:
    """Record that a run missed its deadline, unless the pipeline has loaded since the run began.

    Airflow may report a deadline after the run has ended, so the ledger decides.
    """
    found = find_overdue(connection, {pipeline: deadline})
    for overdue in found:
        message = (
            f"the run {run} has not ended within its deadline of {write_duration(deadline)}: {_describe_age(overdue)}"
        )
        next_step = advice.find_out_why_overdue(pipeline)
        sighting = Sighting(pipeline, IncidentKind.OVERDUE_LOAD, LIVE, message, next_step, link=link)
        see_incident(connection, sighting, routes)
    return bool(found)


def find_limit(pipeline: Pipeline) -> timedelta | None:
    """The time after which a pipeline is overdue; None if it never is."""
    interval = find_longest_interval(pipeline.schedule)
    if interval is None:
        return None
    if pipeline.deadline is not None:
        return interval + pipeline.closed_time + parse_duration(pipeline.deadline)
    return None if pipeline.overdue_intervals is None else pipeline.overdue_intervals * interval + pipeline.closed_time


def _describe(pipeline: Pipeline, overdue: Overdue, limit: timedelta) -> Sighting:
    allowed = f"are {pipeline.overdue_intervals} intervals of {pipeline.schedule}"
    if pipeline.deadline is not None:
        allowed = f"is an interval of {pipeline.schedule} and the deadline of {pipeline.deadline}"
    if pipeline.window is not None:
        allowed = f"{allowed}, and the time outside the window {pipeline.window}"
    message = f"{_describe_age(overdue)}; allowed {allowed}, {write_duration(limit)}"
    next_step = advice.find_out_why_overdue(pipeline.name)
    return Sighting(pipeline.name, IncidentKind.OVERDUE_LOAD, LIVE, message, next_step)


def _describe_age(overdue: Overdue) -> str:
    return (
        f"no load was published, and no run found the topic loaded, for {write_duration(overdue.age)}, since "
        f"{overdue.since.isoformat(timespec='seconds')}"
    )
