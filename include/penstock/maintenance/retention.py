"""Dropping rows and records after their keeping time, in the caller's transaction. The ledger keeps their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock.ledger.load import read_load, record_event, run
from penstock.ledger.statements import Room
from penstock.target.postgres.table import STAGE_SCHEMA
from penstock.target.registry import find_store

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection

query = Room("ledger/maintenance").run

# People look at these records to find out why a load failed or an attempt was given up.
UNCOUNTED_DAYS = 7


def drop_kept_rows(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> list[int]:
    """Drop the kept rows of loads that were rolled back, after their keeping time; such a rollback cannot be undone."""
    run(connection, "lock_pipeline", name=pipeline.name)
    found = query(connection, "find_past_kept", pipeline_id=pipeline_id).fetchall()
    return [row["load_id"] for row in found if _drop_kept(connection, pipeline, row["load_id"])]


def _drop_kept(connection: Connection, pipeline: Pipeline, load_id: int) -> bool:
    """Drop the kept rows of a load; false if a session reads them, and the next maintenance tries again."""
    try:
        with connection.transaction():
            connection.execute("set local lock_timeout = '200ms'")
            find_store(pipeline).drop_kept(connection, load_id)
            query(connection, "forget_aside", load_id=load_id)
            ended = query(connection, "end_keeping", load_id=load_id).rowcount == 1
            load = read_load(connection, load_id)
            record_event(connection, "penstock", load, "kept rows dropped", None)
    except psycopg.errors.LockNotAvailable:
        return False
    return ended


def drop_stray_merges(connection: Connection, pipeline_id: int) -> int:
    """Drop the tables of merges that died between their two transactions. No other process merges now."""
    names = [row["name"] for row in query(connection, "find_stray_merges", pipeline_id=pipeline_id)]
    for name in names:
        connection.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(STAGE_SCHEMA, name)))
    return len(names)


def drop_uncounted(connection: Connection, pipeline_id: int) -> int:
    """Drop quarantined records of attempts that were not published, some days after their load has ended."""
    return query(connection, "drop_uncounted", pipeline_id=pipeline_id, days=UNCOUNTED_DAYS).rowcount


def empty_quarantine(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> int:
    """Drop the content of quarantined records of published loads, if the pipeline declares how long to keep it.

    The place of each record and the reason of its rejection stay, so that every offset is accounted for by name.
    """
    days = pipeline.keep_quarantine_days
    if days is None:
        return 0
    return query(connection, "empty_quarantine", pipeline_id=pipeline_id, days=days).rowcount


def drop_old_tasks(connection: Connection, pipeline_id: int) -> int:
    """Drop the ledger's rows about stage tasks of attempts that were not the last of their load."""
    return query(connection, "drop_old_tasks", pipeline_id=pipeline_id).rowcount
