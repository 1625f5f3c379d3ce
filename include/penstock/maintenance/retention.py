"""Dropping what is past its keeping time, in the caller's transaction. The ledger keeps that it was there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock.ledger.load import read_load, record_event, run
from penstock.target.postgres.leaf_list import query
from penstock.target.postgres.leaves import kept_table
from penstock.target.postgres.table import STAGE_SCHEMA

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection

# For whoever looks into why a load failed, or an attempt was given up.
UNCOUNTED_DAYS = 7


def drop_kept_rows(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> list[int]:
    """Drop the rows of loads that were rolled back, when their time is over: such a load cannot be brought back."""
    run(connection, "lock_pipeline", name=pipeline.name)
    found = query(connection, "find_past_kept", pipeline_id=pipeline_id).fetchall()
    return [row["load_id"] for row in found if _drop_kept(connection, row["load_id"])]


def _drop_kept(connection: Connection, load_id: int) -> bool:
    """Drop what is kept of a load; what somebody reads is left for next time."""
    try:
        with connection.transaction():
            connection.execute("set local lock_timeout = '200ms'")
            connection.execute(sql.SQL("drop table if exists {}").format(kept_table(load_id)))
            query(connection, "forget_aside", load_id=load_id)
            ended = query(connection, "end_keeping", load_id=load_id).rowcount == 1
            load = read_load(connection, load_id)
            record_event(connection, "penstock", load, "kept rows dropped", None)
    except psycopg.errors.LockNotAvailable:
        return False
    return ended


def drop_stray_merges(connection: Connection, pipeline_id: int) -> int:
    """Drop the tables of merges that ended between their two transactions; the caller alone merges in the pipeline."""
    names = [row["name"] for row in query(connection, "find_stray_merges", pipeline_id=pipeline_id)]
    for name in names:
        connection.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(STAGE_SCHEMA, name)))
    return len(names)


def drop_uncounted(connection: Connection, pipeline_id: int) -> int:
    """Drop quarantined records that never counted, some days after their load has ended."""
    return query(connection, "drop_uncounted", pipeline_id=pipeline_id, days=UNCOUNTED_DAYS).rowcount


def empty_quarantine(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> int:
    """Drop what quarantined records of published loads hold, if the pipeline says for how long to keep it.

    Where each was, and why it could not become a row, stays: every offset is accounted for by name.
    """
    days = pipeline.keep_quarantine_days
    if days is None:
        return 0
    return query(connection, "empty_quarantine", pipeline_id=pipeline_id, days=days).rowcount


def drop_old_tasks(connection: Connection, pipeline_id: int) -> int:
    """Drop what tasks of attempts wrote that were not the last."""
    return query(connection, "drop_old_tasks", pipeline_id=pipeline_id).rowcount
