"""Maintenance drops rows and records after their keeping time, and nothing else; the ledger still adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from declaring import declare
from fix_loads import quarantine_record, stage_rows
from loading_process import query
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.errors import WrongUseError
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import pass_checks, read_load
from penstock.load.publish import publish_in
from penstock.maintenance.run import Dropped, maintain, preview_maintenance
from penstock.model.load import Kind
from penstock.model.ranges import Range
from privileges import superuser

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline

ORDERS = declare("topic", keep_quarantine_days=30)


def publish(db: str, start: int, quarantined: tuple[int, ...] = (), kind: Kind = "live") -> int:
    """A published load of ten offsets of partition 0."""
    bad = [(0, offset) for offset in quarantined]
    load_id = stage_rows(db, [Range(0, start, start + 10)], pipeline=ORDERS, quarantined=bad, kind=kind)
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
        publish_in(connection, load_id)
    return load_id


def change(db: str, statement: str, *values: object) -> None:
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(statement, values)


def age(db: str, load_id: int, days: int) -> None:
    """Make a load so many days older."""
    change(
        db,
        "update penstock.load l set published_at = published_at - a.days, ended_at = ended_at - a.days,"
        " kept_until = kept_until - a.days from (select make_interval(days => %s) as days) a where load_id = %s",
        days,
        load_id,
    )


def drop(db: str, pipeline: Pipeline = ORDERS) -> Dropped:
    told: list[str] = []
    return maintain(db, pipeline, told.append).dropped


def test_rows_of_a_rollback_are_dropped_after_their_time_and_not_before(db: str) -> None:
    old, young = publish(db, 0), publish(db, 10)
    for load_id in (old, young):
        roll_back(db, load_id, "ann", "wrong prices")
    age(db, old, 31)
    age(db, young, 29)

    assert preview_maintenance(db, ORDERS).dropped.kept_loads == (old,)
    assert drop(db).kept_loads == (old,)
    assert drop(db).kept_loads == ()

    kept = "select relname from pg_class where relnamespace = 'penstock_kept'::regnamespace and relkind = 'r'"
    assert query(db, kept) == [(f"load_{young}",)]
    with pytest.raises(
        WrongUseError, match=r"`penstock backfill orders --gaps`\. The rows that the rollback kept are deleted"
    ):
        undo_rollback(db, old, "ann", "too late")
    undo_rollback(db, young, "ann", "in time")
    assert query(db, "select from_offset, until_offset, load_id from penstock.covered") == [(10, 20, young)]
    assert query(db, "select count(*) from analytics.orders") == [(10,)]
    events = "select what, actor from penstock.event where load_id = %s order by event_id desc limit 1"
    assert query(db, events, old) == [("kept rows dropped", "penstock")]


def test_quarantined_records_lose_their_content_and_stay_accounted_for(db: str) -> None:
    old, young = publish(db, 0, (3, 7)), publish(db, 10, (14,))
    change(db, "update penstock.quarantine set key = 'k', value = 'v', detail = 'v is no number', headers = '[{}]'")
    age(db, old, 31)
    age(db, young, 29)

    assert drop(db, declare("topic")).emptied == 0  # not declared: kept for ever
    assert drop(db).emptied == 2
    assert drop(db).emptied == 0

    shown = 'select "offset", reason, key, value, headers, detail, dropped_at is not null from penstock.quarantined'
    assert query(db, f"{shown} order by 1") == [
        (3, "bad_json", None, None, [], "dropped after its time", True),
        (7, "bad_json", None, None, [], "dropped after its time", True),
        (14, "bad_json", b"k", b"v", [{}], "v is no number", False),
    ]
    assert query(db, "select rows, quarantined, holes from penstock.covered order by from_offset") == [
        (8, 2, 0), (9, 1, 0),
    ]  # fmt: skip


def test_a_replay_of_a_part_still_counts_records_whose_content_was_dropped(db: str) -> None:
    old = publish(db, 0, (3, 7))
    publish(db, 10)
    age(db, old, 31)
    drop(db)
    load_id = stage_rows(db, [Range(0, 5, 15)], pipeline=ORDERS, quarantined=[(0, 7)], kind="replay")
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
        publish_in(connection, load_id)
    assert query(db, "select from_offset, until_offset, rows, quarantined, holes from penstock.covered order by 1") == [
        (0, 5, 4, 1, 0),
        (5, 15, 9, 1, 0),
        (15, 20, 5, 0, 0),
    ]


@pytest.mark.parametrize(
    ("state", "counts"),
    [
        ("published", True),
        ("staging", True),
        ("failed", False),
        ("superseded", False),
    ],
)
def test_records_and_tasks_of_old_attempts_are_dropped_a_week_after_the_load(
    db: str, *, state: str, counts: bool
) -> None:
    load_id = publish(db, 0, (3,))
    with open_ledger(db) as connection:
        quarantine_record(connection, load_id, 0, 0, 4)
    change(db, "insert into penstock.stage_task values (%s, 0, 0, 0, 0, 10, 10, 0, 0)", load_id)
    ended = "now()" if state in ("published", "failed", "superseded", "discarded") else "null"
    change(db, f"update penstock.load set state = %s, ended_at = {ended}", state)
    kept = 'select attempt, "offset" from penstock.quarantine order by 1'

    assert drop(db) == Dropped(tasks=1)
    assert query(db, kept) == [(0, 4), (1, 3)]
    age(db, load_id, 8)
    dropped = drop(db).uncounted

    expected = [(0, 4), (1, 3)] if ended == "null" else [(1, 3)] if counts else []
    assert query(db, kept) == expected
    assert dropped == 2 - len(expected)
    assert query(db, "select distinct attempt from penstock.stage_task") == [(1,)]


def test_records_of_a_load_that_can_be_brought_back_are_kept_as_long_as_its_rows(db: str) -> None:
    load_id = publish(db, 0, (3,))
    roll_back(db, load_id, "ann", "wrong prices")
    age(db, load_id, 29)
    assert drop(db).uncounted == 0
    age(db, load_id, 2)
    assert drop(db) == Dropped(kept_loads=(load_id,), uncounted=1)


def test_tables_that_no_load_needs_are_dropped_and_a_dry_run_drops_nothing(db: str) -> None:
    load_id = publish(db, 0)
    with psycopg.connect(db) as connection:
        connection.execute(f"create table penstock_stage.load_{load_id}_0 (a int)".encode())
    assert preview_maintenance(db, ORDERS).dropped == Dropped(tables=1)
    assert drop(db) == Dropped(tables=1)
    assert query(db, "select from pg_class where relnamespace = 'penstock_stage'::regnamespace") == []
