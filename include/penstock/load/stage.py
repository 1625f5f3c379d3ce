"""Staging a load in the Spark driver: split the plan into chunks, let tasks stage them, compare, finish."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from penstock import advice
from penstock.errors import (
    FencedError,
    LogLostError,
    PenstockError,
    RejectedRecordError,
    StageError,
    TransformError,
)
from penstock.kafka.readers.contract import find_reader
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import begin_attempt, fail_load, finish_staging, read_load, record_application
from penstock.ledger.stage_task import lock_staging, read_stage_tasks
from penstock.load.failure import see_failure
from penstock.load.results.tables import prepare_results
from penstock.model.load import STAGED_STATES, LoadState
from penstock.model.ranges import cut_chunks, group_chunks
from penstock.spark.driver import keeping_error
from penstock.spark.error_transport import first_words, recover_error
from penstock.spark.executors import find_first_failure
from penstock.target.assignment import make_assignment
from penstock.target.registry import find_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.ledger.connection import Connection
    from penstock.model.load import Load
    from penstock.model.ranges import Chunk, Range
    from penstock.settings import Settings
    from penstock.spark.executors import Executors
    from penstock.target.assignment import Assignment

log = logging.getLogger(__name__)

# A chunk has a fixed cost (connections), so it must be large; many cores share the chunks and a failed one is
# repeated, so it must be small.
LEAST_CHUNK, MOST_CHUNK, CHUNKS = 250_000, 500_000, 32
# Small chunks share a task, in about eight groups, so that the cores share the work. A task of a transform takes more
# of them, because it has two workers and two connections: 4M records took 15.9 s by 16 tasks, and 15.4 s by 8.
LEAST_GROUP, GROUPS = 10_000, 8
MOST_GROUP, MOST_OF_TRANSFORM = LEAST_CHUNK, 500_000


def begin_staging(uri: str, load_id: int) -> int | None:
    """Open a new attempt, with a table of its own; None if the load is staged already.

    Before that the target is prepared, in transactions of its own, because readers of the target wait for the end of a
    transaction that adds a column.
    """
    with closing(open_ledger(uri)) as connection:
        load = read_load(connection, load_id)
        if load.state in STAGED_STATES:
            return None
        if load.state not in (LoadState.PLANNED, LoadState.STAGING):
            raise _fenced(load, load.attempt)
        connection.rollback()
        store = find_store(load.declaration)
        store.prepare(connection)
        connection.commit()
        store.prepare_indexes(connection)
        connection.commit()
        prepare_results(connection, load.declaration)
        connection.commit()
        attempt = begin_attempt(connection, load)
        store.open_attempt(connection, load, attempt)
        connection.commit()
    return attempt


def run_stage(
    settings: Settings,
    load_id: int,
    attempt: int,
    open_executors: Callable[[], Executors],
    read_again: Callable[[Settings, Load, int, Executors], None] | None = None,
) -> None:
    """Stage a load in an attempt that has begun; the load is `staged` when this function returns.

    `read_again` reads chunks a second time, before the load is staged, for the checks that compare both readings.
    """
    with open_ledger(settings.db) as connection:
        load = read_load(connection, load_id)
        if not is_current(load, attempt):
            log.warning("load %d: attempt %d is staged already; it stays as it is.", load_id, attempt)
            return
    spark = open_executors()  # takes long on a busy cluster, so no transaction may be open meanwhile
    with open_ledger(settings.db) as connection:
        record_application(connection, load_id, attempt, spark.application)
    chunks = cut_chunks(list(load.ranges), choose_chunk_size(load.ranges))
    assignment = make_assignment(settings, load, attempt)
    try:
        run_tasks(settings, spark, load, assignment, chunks)
        if read_again is not None:
            read_again(settings, load, attempt, spark)
        finish_attempt(settings.db, load, attempt, chunks)
    except (RejectedRecordError, LogLostError, TransformError) as error:  # a retry would find the same records and log
        with keeping_error(error), open_ledger(settings.db) as connection:
            fail_load(connection, load, str(error))
            see_failure(connection, load.declaration, load, error)
        raise
    except StageError as error:
        _refuse_replaced(settings.db, load_id, attempt, error)
        raise


def _refuse_replaced(db: str, load_id: int, attempt: int, error: StageError) -> None:
    """Raise a FencedError if another attempt or load has replaced this one: that explains a failure of any kind.

    A kept server forgets the job of a client that was stopped for long, and so does not know the refusal of its tasks.
    """
    try:
        with open_ledger(db) as connection:
            load = read_load(connection, load_id)
    except (PenstockError, psycopg.Error):
        return  # the server is out of reach: the error that is raised is the more important one
    if _is_replaced(load, attempt):
        raise _fenced(load, attempt) from error


def is_current(load: Load, attempt: int) -> bool:
    """Whether the attempt still has to be staged; a FencedError stops an attempt that another one has replaced."""
    if _is_replaced(load, attempt):
        raise _fenced(load, attempt)
    return load.state == LoadState.STAGING


def _is_replaced(load: Load, attempt: int) -> bool:
    return load.attempt != attempt or load.state not in (LoadState.STAGING, *STAGED_STATES)


def choose_chunk_size(ranges: tuple[Range, ...]) -> int:
    """Choose the number of offsets of a chunk, from the plan alone: two drivers of an attempt must agree on it."""
    planned = sum(map(len, ranges))
    return max(LEAST_CHUNK, min(MOST_CHUNK, -(-planned // CHUNKS)))


def make_groups(load: Load, chunks: Sequence[Chunk]) -> list[list[Chunk]]:
    """Group the chunks of a load, one group for each task, from the plan alone for the same reason."""
    most = MOST_GROUP if load.declaration.transform is None else MOST_OF_TRANSFORM
    return group_chunks(chunks, max(LEAST_GROUP, min(most, -(-sum(map(len, load.ranges)) // GROUPS))))


def run_tasks(settings: Settings, spark: Executors, load: Load, assignment: Assignment, chunks: list[Chunk]) -> None:
    """Stage every chunk: small chunks in groups, each group in a Spark task of its own."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        results = stage_chunks(settings, spark, load, assignment, chunks)
    except PenstockError as found:
        error = found
    except (PySparkException, Py4JError) as failure:
        recovered = recover_error(str(failure))
        error = (
            find_first_failure(spark, recovered)
            if recovered
            else explain_failure(failure, load, assignment, chunks, spark)
        )
    else:
        lost = [task for task, won in results if not won]
        if lost:
            log.warning("load %d: tasks %s were already staged by another try; its rows stay.", load.load_id, lost)
        return
    raise error.fill(load.pipeline, load.load_id, load.ranges)


def stage_chunks(
    settings: Settings, spark: Executors, load: Load, assignment: Assignment, chunks: list[Chunk]
) -> list[tuple[int, bool]]:
    """Stage the chunks in Spark tasks, and return for each task whether this run wrote it."""
    from penstock.load.task import stage_group  # imported late: a fenced driver never needs pyarrow

    groups = make_groups(load, chunks)
    if load.declaration.rate is not None:
        together = max(1, min(len(groups), spark.count_cores()))
        assignment = replace(assignment, records_per_second=load.declaration.rate / together)
    if load.declaration.transform is not None:
        from penstock.load.transform.run import stage_transformed

        stage_transformed(settings, spark, load, assignment, groups)
        return []
    reader = find_reader(load.declaration.reader)
    return reader.stage_groups(spark, assignment.source, groups, partial(stage_group, assignment))


def explain_failure(
    failure: Exception, load: Load, assignment: Assignment, chunks: list[Chunk], spark: Executors
) -> PenstockError:
    """Make an error from a failure of Spark itself, or of a transform."""
    text = str(failure)
    found = find_reader(load.declaration.reader).explain_failure(assignment.source, chunks, text)
    if found is None and load.declaration.transform is not None:
        from penstock.load.transform.failure import explain_task

        found = explain_task(failure, load, make_groups(load, chunks), spark)
    return found or StageError(
        f"Spark gave up: {first_words(text)}",
        next_step=advice.RETRY_STAGE_AFTER_LOG,
    )


def finish_attempt(db: str, load: Load, attempt: int, chunks: list[Chunk]) -> None:
    """Compare the written chunks with the plan, build the key, and move the load to staged."""
    with open_ledger(db) as connection:
        lock_staging(connection, load.load_id, attempt)
        if not is_current(read_load(connection, load.load_id), attempt):
            log.warning("load %d: another driver of attempt %d has finished it.", load.load_id, attempt)
            return
        if load.declaration.transform is not None:
            from penstock.load.transform.run import balance_load

            balance_load(connection, load, attempt)
        compare_with_plan(connection, load, attempt, chunks)
        find_store(load.declaration).seal(connection, load, attempt)
        finish_staging(connection, load, attempt)


def compare_with_plan(connection: Connection, load: Load, attempt: int, chunks: list[Chunk]) -> None:
    """Refuse the attempt unless every chunk is written once, and every offset is a row, quarantined or a hole."""
    written = {task.task: task for task in read_stage_tasks(connection, load.load_id, attempt)}
    wrong = [
        chunk.range
        for chunk in chunks
        if chunk.task not in written
        or written[chunk.task].range != chunk.range
        or written[chunk.task].accounted != len(chunk.range)
    ]
    if wrong or len(written) != len(chunks):
        raise StageError(
            f"attempt {attempt}: {len(written)} of {len(chunks)} chunks are written, {len(wrong)} not as planned.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=wrong,
            next_step=advice.RETRY_STAGE_WITH_NEW_ATTEMPT,
        )
    _check_limit(load, sum(task.quarantined for task in written.values()))


def _check_limit(load: Load, quarantined: int) -> None:
    limit = load.declaration.max_quarantined
    if load.kind != "redrive" and limit is not None and quarantined > limit:
        raise RejectedRecordError(
            f"{quarantined} records cannot become rows, and `max_quarantined` is {limit}.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.SEE_QUARANTINE,
        )


def _fenced(load: Load, attempt: int) -> PenstockError:
    return FencedError(
        f"attempt {attempt} is no longer current: the load is {load.state}, at attempt {load.attempt}.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=advice.WAIT_FOR_OTHER_ATTEMPT,
    )
