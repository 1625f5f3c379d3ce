"""A whole load without Airflow, by the same steps: plan, stage, validate, publish."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import HeldError
from penstock.ledger.connection import concerning, open_ledger
from penstock.ledger.load import read_load
from penstock.ledger.work_lock import working_on
from penstock.lineage.emit import emit_lineage
from penstock.load.failure import recording_failures
from penstock.load.plan import plan_load, preview_plan
from penstock.load.publish import publish_load
from penstock.load.stage import begin_staging
from penstock.load.validate import import_ahead, validate_load
from penstock.spark.submit import refuse_transform, submit

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from penstock.declaration.pipeline import Pipeline
    from penstock.load.plan import Planned
    from penstock.model.load import Load
    from penstock.settings import Settings


def run_load(
    settings: Settings,
    pipeline: Pipeline,
    run_id: str,
    report: Callable[[str], None],
    spark_log: TextIO,
    *,
    ignore_window: bool = False,
) -> Load | None:
    """Load the new records of the topic, and return the published load; None if there was nothing new."""
    refuse_transform(settings, pipeline)
    with recording_failures(settings.db, pipeline), concerning(pipeline.name):
        planned = plan_load(settings.db, settings.kafka, pipeline, run_id, ignore_window=ignore_window)
    report(planned.message)
    if planned.load is None:
        return None
    return finish_load(settings, planned.load.load_id, report, spark_log)


def finish_load(settings: Settings, load_id: int, report: Callable[[str], None], spark_log: TextIO) -> Load:
    """Do the steps after the plan that are not done yet. Every error names the load and its ranges."""
    with open_ledger(settings.db) as connection:
        load = read_load(connection, load_id)
    refuse_transform(settings, load.declaration)
    failures = recording_failures(settings.db, load.declaration, load)
    with failures, concerning(load=load), working_on(settings.db, load_id):
        return _finish(settings, load_id, report, spark_log)


def _finish(settings: Settings, load_id: int, report: Callable[[str], None], spark_log: TextIO) -> Load:
    stage_load(settings, load_id, report, spark_log)
    verdict = validate_load(settings.db, load_id, settings.db_checker, settings.kafka)
    if not verdict.passed:
        raise HeldError(
            f"held: {verdict.cause}",
            pipeline=verdict.load.pipeline,
            load=load_id,
            ranges=verdict.load.ranges,
            next_step=advice.settle_held(load_id, verdict.load.kind),
        )
    report(publish_load(settings.db, settings.kafka, load_id).message)
    emit_lineage(settings, load_id)
    with open_ledger(settings.db) as connection:
        return read_load(connection, load_id)


def preview_load(settings: Settings, pipeline: Pipeline) -> Planned:
    """Plan as a load would, and roll the plan back: nothing is written, and no load is fenced."""
    return preview_plan(settings.db, settings.kafka, pipeline, name_run())


def name_run() -> str:
    """Name a run that a person starts on the command line."""
    return f"cli__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}__{os.getpid()}"


def stage_load(settings: Settings, load_id: int, report: Callable[[str], None], spark_log: TextIO) -> None:
    """Stage a load by a new attempt, unless it is staged already."""
    attempt = begin_staging(settings.db, load_id)
    if attempt is None:
        report(f"load {load_id} is staged already.")
        return
    report(f"staging load {load_id}, attempt {attempt} …")
    submit(settings, load_id, attempt, spark_log, import_ahead)  # takes seconds, while Spark works
