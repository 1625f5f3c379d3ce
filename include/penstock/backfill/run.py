"""Run a backfill without Airflow: one load after the other, or several at once, each with its own publish."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import FencedError, PenstockError, WrongUseError
from penstock.ledger.backfill import lock_backfill, read_backfill, read_backfill_loads, read_backfill_progress
from penstock.ledger.connection import open_ledger
from penstock.ledger.incident import end_load_incidents
from penstock.ledger.load import create_load, read_load, supersede_failed_load
from penstock.load.publish import refuse_old_generation
from penstock.load.run import finish_load
from penstock.model.load import OPEN_STATES, LoadState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.backfill import BackfillProgress
    from penstock.ledger.connection import Connection
    from penstock.settings import Settings

UNFINISHED = (LoadState.FAILED, *OPEN_STATES)


def run_backfill(
    settings: Settings,
    pipeline: Pipeline,
    backfill_id: int,
    parallel: int,
    report: Callable[[str], None],
    spark_log: TextIO,
) -> BackfillProgress:
    """Finish all loads of a backfill. A failed load stops no other; the first failure is raised after all loads."""
    with closing(open_ledger(settings.db)) as session:
        session.autocommit = True
        _lock(session, pipeline, backfill_id)
        with open_ledger(settings.db) as connection:
            load_ids = renew_loads(connection, pipeline, backfill_id)
        failures = _run_loads(settings, backfill_id, load_ids, parallel, report, spark_log)
    progress = read_progress(settings.db, backfill_id)
    if failures:
        first = failures[0].next_step.rstrip(".") or "fix the cause"
        failures[0].next_step = (
            f"{first}; then `penstock backfill {pipeline.name} --resume {backfill_id}`: {len(failures)} of "
            f"{len(load_ids)} loads failed, and what is published stays."
        )
        raise failures[0]
    if not load_ids:
        report(f"backfill {backfill_id} has ended: {progress}.")
    return progress


def resume_backfill(db: str, pipeline: Pipeline, backfill_id: int, most_loads: int) -> list[int]:
    """Find the unfinished loads of a backfill for another process to finish; failed ones are planned again.

    More than `most_loads` are refused before anything is written.
    """
    with closing(open_ledger(db)) as session:
        session.autocommit = True
        _lock(session, pipeline, backfill_id)
        with open_ledger(db) as connection:
            _refuse_too_many(connection, pipeline, backfill_id, most_loads)
            return renew_loads(connection, pipeline, backfill_id)


def _refuse_too_many(connection: Connection, pipeline: Pipeline, backfill_id: int, most_loads: int) -> None:
    loads = sum(state in UNFINISHED for state in read_backfill_loads(connection, backfill_id).values())
    if loads > most_loads:
        raise WrongUseError(
            f"{loads:,} loads of backfill {backfill_id} are unfinished, and Airflow maps at most {most_loads:,} tasks "
            "(its setting core.max_map_length); nothing is started.",
            pipeline=pipeline.name,
            next_step=advice.resume_without_airflow(pipeline.name, backfill_id),
        )


def _lock(session: Connection, pipeline: Pipeline, backfill_id: int) -> None:
    if not lock_backfill(session, backfill_id):
        raise FencedError(
            f"another process runs backfill {backfill_id}.",
            pipeline=pipeline.name,
            next_step=advice.AWAIT_BACKFILL,
        )


def _run_loads(
    settings: Settings,
    backfill_id: int,
    load_ids: Sequence[int],
    parallel: int,
    report: Callable[[str], None],
    spark_log: TextIO,
) -> list[PenstockError]:
    failures: list[PenstockError] = []
    with ThreadPoolExecutor(parallel) as pool:
        running = [pool.submit(finish_load, settings, load_id, report, spark_log) for load_id in load_ids]
        for done in as_completed(running):
            error = done.exception()
            if error is None:
                report(f"backfill {backfill_id}: {read_progress(settings.db, backfill_id)}")
            elif isinstance(error, PenstockError):
                report(str(error))
                failures.append(error)
            else:
                raise error
    return failures


def renew_loads(connection: Connection, pipeline: Pipeline, backfill_id: int) -> list[int]:
    """The unfinished loads of a backfill. A failed load is planned again, by today's declaration."""
    backfill = read_backfill(connection, backfill_id)
    if backfill is None or backfill.pipeline != pipeline.name:
        raise WrongUseError(f"there is no backfill {backfill_id} of {pipeline.name}.", next_step=advice.LIST_BACKFILLS)
    return [
        _plan_again(connection, pipeline, load_id, f"{backfill.run_id}/instead of {load_id}")
        if state == LoadState.FAILED
        else load_id
        for load_id, state in read_backfill_loads(connection, backfill_id).items()
        if state in UNFINISHED
    ]


def _plan_again(connection: Connection, pipeline: Pipeline, load_id: int, run_id: str) -> int:
    load = read_load(connection, load_id)
    refuse_old_generation(connection, load)
    again = create_load(
        connection,
        load.pipeline_id,
        load.generation_id,
        pipeline,
        run_id,
        load.ranges,
        kind=load.kind,
        backfill_id=load.backfill_id,
    )
    supersede_failed_load(connection, load_id, again.load_id)
    why = f"load {again.load_id} loads its offsets again"
    end_load_incidents(connection, pipeline.name, load_id, "penstock", why)
    return again.load_id


def read_progress(uri: str, backfill_id: int) -> BackfillProgress:
    """Read the progress of a backfill."""
    with open_ledger(uri) as connection:
        progress = read_backfill_progress(connection, backfill_id)
    if progress is None:
        raise WrongUseError(f"there is no backfill {backfill_id}.", next_step=advice.LIST_BACKFILLS)
    return progress
