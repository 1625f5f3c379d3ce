"""Migrations: an old ledger with data, a newer ledger, a changed text, and the resulting schema."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

import ledger_schema
from declaring import declare
from fix_loads import Bind, stage_rows
from loading_process import query
from penstock.decide.rollback import undo_rollback
from penstock.decide.settle import discard_in
from penstock.doctor.services import check_services
from penstock.errors import LogTruncatedError, WrongUseError
from penstock.ledger.connection import migrate, open_ledger
from penstock.ledger.hold import begin_hold
from penstock.ledger.load import read_load
from penstock.ledger.migration import read_migrations
from penstock.load.publish import publish_load
from penstock.load.validate import validate_load
from penstock.model.ranges import Range
from penstock.settings import Settings
from penstock.status.pipelines import read_status
from penstock.verify.ledger_sums import find_ledger_faults
from penstock.verify.row_counts import count_loads
from privileges import superuser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock_stack.postgres import Postgres

PIPELINE = declare("topic", indexes=[["id"]])
_numbers = itertools.count(1)


@contextmanager
def restored(postgres: Postgres, last: str) -> Iterator[str]:
    """A database with the migrations up to one, filled by the code of that time."""
    name = f"old_{next(_numbers)}"
    try:
        db = postgres.create_database(name)
        with psycopg.connect(db) as connection:
            connection.execute(
                "create schema penstock; create table penstock.migration"
                " (name text primary key, applied_at timestamptz not null default now())"
            )
            for migration, text in read_migrations().items():
                if migration[:4] <= last:
                    connection.execute(text)
                    connection.execute("insert into penstock.migration (name) values (%s)", [migration])
            triggers = "select distinct tgrelid::regclass::text from pg_trigger where not tgisinternal"
            tables = [table for (table,) in connection.execute(triggers)]
            # The triggers of that time have written what they write already.
            for change in ("disable", "enable"):
                connection.execute(";".join(f"alter table {table} {change} trigger user" for table in tables).encode())
                if change == "disable":
                    connection.execute(Path(__file__).parents[1].joinpath(f"ledger_{last}.sql").read_bytes())
        yield db
    finally:
        postgres.drop_database(name)


@pytest.fixture
def old(postgres: Postgres) -> Iterator[str]:
    """A database that the first released version left."""
    with restored(postgres, "0014") as db:
        yield db


@pytest.fixture
def last(postgres: Postgres) -> Iterator[str]:
    """A database that the version before the stored declarations left."""
    with restored(postgres, "0043") as db:
        yield db


def test_an_old_ledger_with_data_is_upgraded_and_its_loads_continue(old: str, bound: Bind) -> None:
    route_alerts(old)
    before = query(old, "select * from penstock.loads order by load_id")
    assert len(before) == 6

    assert migrate(old).applied == [name for name in read_migrations() if name > "0014_differences.sql"]

    loads = "select load_id, state, rows, quarantined, holes from penstock.loads order by load_id"
    assert query(old, loads) == [
        (1, "published", 27, 2, 1), (2, "published", 20, 0, 0), (3, "rolled_back", 20, 0, 0),
        (4, "published", 5, 0, 0), (5, "failed", None, None, None), (6, "validated", 19, 1, 0),
    ]  # fmt: skip
    totals = "select loads, rows, quarantined, holes from penstock.total"
    assert query(old, totals) == [(4, 72, 2, 1)]
    phases = "select phase, loads, (select sum(n) from unnest(buckets) n) from penstock.phase_total order by phase"
    assert query(old, phases) == [("publish", 4, 4), ("stage", 4, 4), ("validate", 4, 4)]
    kafka = bound(old)
    # The begin of the hold was alerted before the upgrade, and its end was not.
    incidents = "select kind, state, ended_why from penstock.incidents"
    assert query(old, incidents) == [("blocked_pipeline", "ended", "loss accepted")]
    notices = "select kind, route, sent_at is null from penstock.notices order by notice_id"
    assert query(old, notices) == [("opened", "oncall", False), ("ended", "oncall", True)]
    with open_ledger(old) as connection:
        [status] = read_status(connection, kafka, [PIPELINE])
    assert status.load == 6
    assert [(partition.partition, partition.position) for partition in status.partitions] == [(0, 60), (1, 15)]
    assert status.missing.gaps == 20

    assert publish_load(old, kafka, 6).by_this_call
    undo_rollback(old, 3, "ann", "they were right")
    load_id = stage_rows(old, [Range(0, 80, 100)], pipeline=PIPELINE)
    assert load_id == 7
    assert validate_load(old, load_id).passed
    assert publish_load(old, kafka, load_id).by_this_call

    assert query(old, totals) == [(6, 111, 3, 1)]
    assert query(old, phases) == [("publish", 6, 6), ("stage", 6, 6), ("validate", 6, 6)]
    with open_ledger(old) as connection:
        assert find_ledger_faults(connection, "orders") == []
    counted = list(count_loads(old, "orders"))
    assert [fault for _, faults in counted for fault in faults] == []
    assert sum(each.found for ranges, _ in counted for each in ranges) == 27 - 5 + 20 + 20 + 5 + 19 + 20
    assert query(old, "select * from penstock.gaps") == []


def route_alerts(old: str) -> None:
    with psycopg.connect(superuser(old)) as connection:
        connection.execute("""update penstock.pipeline set declaration = declaration || '{"alerts": "oncall"}'""")


def test_the_open_trouble_of_an_old_ledger_becomes_incidents_that_are_sent_once(old: str) -> None:
    route_alerts(old)
    with psycopg.connect(superuser(old)) as connection:
        connection.execute("update penstock.load set state = 'held', cause = 'a row is missing' where load_id = 6")
        connection.execute("insert into penstock.hold (pipeline_id, kind, cause) values (1, 'log_cut', 'truncated')")
        connection.execute(
            "insert into penstock.event (actor, pipeline_id, hold_id, what)"
            " select 'penstock', 1, max(hold_id), 'alerted:hold_began' from penstock.hold"
        )
        connection.execute(
            "insert into penstock.loss (pipeline_id, generation_id, partition, offsets, reason)"
            " values (1, 1, 0, '[90,95)', 'deleted by retention')"
        )

    migrate(old)

    incidents = "select kind, key, state, load_id from penstock.incidents order by incident_id"
    assert query(old, incidents) == [
        ("blocked_pipeline", "hold 1", "ended", None), ("blocked_pipeline", "log_cut", "open", None),
        ("held_load", "load 6", "open", 6), ("loss", "losses before the upgrade", "ended", None),
    ]  # fmt: skip
    unsent = """select i.kind, n.kind from penstock.notices n join penstock.incidents i using (incident_id)
                where n.sent_at is null order by i.kind, n.kind"""
    assert query(old, unsent) == [
        ("blocked_pipeline", "ended"), ("blocked_pipeline", "reminder"), ("held_load", "opened"), ("loss", "opened"),
    ]  # fmt: skip
    with open_ledger(old) as connection:
        begin_hold(connection, 1, PIPELINE, LogTruncatedError("truncated"))
        discard_in(connection, 6, "ann", "wrong")
    assert query(old, "select kind, key, times_seen from penstock.incidents where state = 'open'") == [
        ("blocked_pipeline", "log_cut", 2)
    ]


def test_a_ledger_of_the_last_version_is_upgraded_with_its_results(last: str, bound: Bind) -> None:
    views = ("loads", "ranges", "covered", "dropped_rows", "results", "quarantined", "check_results", "positions")
    before = {view: query(last, f"select * from penstock.{view} order by 1, 2, 3, 4, 5") for view in views}
    declared = "select load_id, declaration from penstock.load"
    declarations = query(last, f"{declared} order by 1")
    newest, counts = "select note, id from analytics.newest order by 1", "select * from analytics.counts order by 1"

    migrate(last)

    for view, rows in before.items():
        found = query(last, f"select * from penstock.{view} order by 1, 2, 3, 4, 5")
        # A newer version may add columns at the end of a view.
        assert [new[: len(old)] for new, old in zip(found, rows, strict=True)] == rows
    assert query(last, f"{declared} join penstock.declaration using (declaration_id) order by 1") == declarations
    assert query(last, "select count(*) from penstock.declaration") == [(2,)], "each declaration is stored once"
    with open_ledger(last) as connection:
        pipeline = read_load(connection, 8).declaration
    kafka = bound(last)
    assert publish_load(last, kafka, 8).by_this_call
    undo_rollback(last, 3, "ann", "they were right")
    load_id = stage_rows(last, [Range(0, 36, 40)], pipeline=pipeline)
    assert validate_load(last, load_id).passed
    assert publish_load(last, kafka, load_id).by_this_call

    assert query(last, "select count(*) from penstock.declaration") == [(2,)]
    with open_ledger(last) as connection:
        assert find_ledger_faults(connection, "orders") == []
    assert [fault for _, faults in count_loads(last, "orders") for fault in faults] == []
    assert query(last, counts) == sorted(Counter(n % 10 for n in [*range(40), 5, 7, 8, *range(9, 14)]).items())
    assert query(last, newest) == sorted((f"note of {n}", n) for n in range(40) if n % 10 != 7)
    assert query(last, "select * from penstock.gaps") == []


def test_migrations_applied_before_get_their_checksum_at_the_upgrade(old: str, db: str) -> None:
    migrate(old)

    sums = "select name, checksum from penstock.migration order by name"
    assert query(old, sums) == query(db, sums)
    assert all(len(checksum) == 64 for _, checksum in query(old, sums))


def test_an_upgraded_ledger_has_the_schema_of_a_new_one(old: str, db: str) -> None:
    migrate(old)

    upgraded = [fact for fact in ledger_schema.describe_ledger(old) if "load_3" not in fact and "load_6_1" not in fact]
    assert upgraded == ledger_schema.describe_ledger(db)


def test_the_schema_of_the_ledger_equals_the_recorded_schema(db: str) -> None:
    written = ledger_schema.FILE.read_text().splitlines()

    found = ledger_schema.describe_ledger(db)

    difference = [f"+ {fact}" for fact in found if fact not in written]
    difference += [f"- {fact}" for fact in written if fact not in found]
    assert found == written, "\n".join([f"if it is meant, run `{ledger_schema.COMMAND}`:", *difference])


def test_a_ledger_newer_than_the_code_is_refused_and_nothing_is_changed(db: str) -> None:
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("insert into penstock.migration (name, checksum) values ('9999_later.sql', 'x')")

    for refused in (open_ledger, migrate):
        with pytest.raises(WrongUseError, match=r"newer than this version of Penstock.*9999_later\.sql"):
            refused(db)
    [finding, *_] = check_services(Settings(db, {}, Path("none"), "local"), [])
    assert (finding.fits, "9999_later.sql" in finding.told) == (False, True)


def test_a_changed_text_of_an_applied_migration_is_refused_with_its_name(db: str) -> None:
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("update penstock.migration set checksum = 'another' where name = '0002_alerts.sql'")

    for refused in (open_ledger, migrate):
        with pytest.raises(WrongUseError, match=r"not those of this version of Penstock: 0002_alerts\.sql"):
            refused(db)
    [finding, *_] = check_services(Settings(db, {}, Path("none"), "local"), [])
    assert (finding.fits, "0002_alerts.sql" in finding.told) == (False, True)


def test_the_events_of_a_hold_are_found_by_an_index(db: str) -> None:
    with psycopg.connect(db) as connection:
        connection.execute("set enable_seqscan = off")
        plan = connection.execute("explain select from penstock.event where hold_id = 5").fetchall()

    assert "event_by_hold" in str(plan)
