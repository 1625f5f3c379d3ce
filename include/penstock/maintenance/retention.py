"""Dropping rows and records after their keeping time, in the caller's transaction. The ledger keeps their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock.ledger import maintenance
from penstock.ledger.coverage import forget_aside
from penstock.ledger.dropped import OldLeaf, find_old_leaves, record_dropped
from penstock.ledger.event import record_event, record_pipeline_event
from penstock.ledger.load import read_load
from penstock.ledger.pipeline import lock_pipeline
from penstock.ledger.result import ResultState, mark_guards_dropped, read_results
from penstock.load.results import upsert
from penstock.target.postgres.leaves import read_leaves
from penstock.target.postgres.locks import LockRequest, lock_in_tries
from penstock.target.postgres.table import STAGE_SCHEMA, find_default_partition, target_identifier
from penstock.target.registry import find_store

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection


# People look at these records to find out why a load failed or an attempt was given up.
UNCOUNTED_DAYS = 7


def drop_kept_rows(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> list[int]:
    """Drop the kept rows of loads that were rolled back, after their keeping time; such a rollback cannot be undone."""
    lock_pipeline(connection, pipeline.name)
    found = maintenance.find_past_kept(connection, pipeline_id)
    return [load_id for load_id in found if _drop_kept(connection, pipeline, load_id)]


def _drop_kept(connection: Connection, pipeline: Pipeline, load_id: int) -> bool:
    """Drop the kept rows of a load; false if a session reads them, and the next maintenance tries again."""
    try:
        with connection.transaction():
            connection.execute("set local lock_timeout = '200ms'")
            find_store(pipeline).drop_kept(connection, load_id)
            forget_aside(connection, load_id)
            ended = maintenance.end_keeping(connection, load_id)
            load = read_load(connection, load_id)
            record_event(connection, "penstock", load, "kept rows dropped", None)
    except psycopg.errors.LockNotAvailable:
        return False
    return ended


def drop_stray_merges(connection: Connection, pipeline_id: int) -> int:
    """Drop the tables of merges that died between their two transactions. No other process merges now."""
    names = maintenance.find_stray_merges(connection, pipeline_id)
    for name in names:
        connection.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(STAGE_SCHEMA, name)))
    return len(names)


def drop_uncounted(connection: Connection, pipeline_id: int) -> int:
    """Drop quarantined records of attempts that were not published, some days after their load has ended."""
    return maintenance.drop_uncounted(connection, pipeline_id, UNCOUNTED_DAYS)


def empty_quarantine(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> int:
    """Drop the content of quarantined records of published loads, if the pipeline declares how long to keep it.

    The place of each record and the reason of its rejection stay, so that every offset is accounted for by name.
    """
    days = pipeline.keep_quarantine_days
    if days is None:
        return 0
    return maintenance.empty_quarantine(connection, pipeline_id, days)


def drop_old_tasks(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> int:
    """Drop the ledger's rows about stage tasks: of attempts that were not the last of their load, and of old loads."""
    dropped, days = maintenance.drop_old_tasks(connection, pipeline_id), pipeline.keep_tasks_days
    return dropped if days is None else dropped + maintenance.drop_tasks_past_kept(connection, pipeline_id, days)


def drop_old_guards(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> int:
    """Drop the guards of keys of upserts that were deleted long ago; an older record could bring such a key back."""
    days = {str(result.table): result.guards_days for result in pipeline.results if result.mode == "upsert"}
    lock_pipeline(connection, pipeline.name)
    dropped = 0
    for known in read_results(connection, pipeline_id):
        kept_days = days.get(known.table_name)
        if known.state != ResultState.CURRENT or known.result.mode != "upsert" or kept_days is None:
            continue
        found = upsert.drop_guards(connection, known.result, upsert.guards_table(known.result_id), kept_days)
        if found:
            mark_guards_dropped(connection, known.result_id)
        dropped += found
    return dropped


def list_old_leaves(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> list[OldLeaf]:
    """List the leaves whose rows are past `keep_rows_days`; none while a result is not computed from all rows."""
    days = pipeline.keep_rows_days
    if days is None:
        return []
    known = read_results(connection, pipeline_id)
    current = {each.table_name for each in known if each.state == ResultState.CURRENT}
    if (
        any(each.state != ResultState.CURRENT for each in known)
        or {str(each.table) for each in pipeline.results} - current
    ):
        return []
    leaves = [(f"{each.schema}.{each.name}", each.from_load, each.until_load)
              for each in read_leaves(connection, pipeline, pipeline_id)]  # fmt: skip
    return find_old_leaves(connection, pipeline_id, leaves, days)


def drop_old_leaves(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> int:
    """Drop old leaves, each in a transaction of its own, which waits for readers of the target in short tries."""
    dropped = 0
    for planned in list_old_leaves(connection, pipeline, pipeline_id):
        connection.commit()
        lock_pipeline(connection, pipeline.name)
        # A load may have been rolled back or undone since.
        if planned in list_old_leaves(connection, pipeline, pipeline_id):
            table = sql.Identifier(*planned.name.split(".", 1))
            beside = (table, *find_default_partition(connection, pipeline.target))
            lock_in_tries(connection, LockRequest(target_identifier(pipeline.target), beside, pipeline=pipeline.name))
            connection.execute(sql.SQL("drop table {}").format(table))
            record_dropped(connection, pipeline_id, planned)
            record_pipeline_event(connection, "penstock", pipeline_id, "old rows dropped", planned.name)
            dropped += 1
    connection.commit()
    return dropped


def drop_check_results(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> int:
    """Drop the results of checks after their keeping time, if there is one. The causes of holds stay in the ledger."""
    days = pipeline.keep_check_results_days
    return 0 if days is None else maintenance.drop_check_results(connection, pipeline_id, days)
