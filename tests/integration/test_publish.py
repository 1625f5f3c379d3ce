"""The publish transaction against a real PostgreSQL: one winner, all or nothing, visible at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import COLUMNS, declare
from fix_loads import Bind, stage_rows
from loading_process import await_blocked, await_true, locked
from penstock import advice
from penstock.decide.settle import approve_load
from penstock.errors import FencedError, HeldError, OutcomeUnknownError, PenstockError
from penstock.ledger.connection import LIMITS, connect, open_ledger
from penstock.ledger.load import hold_load, pass_checks, read_load
from penstock.load import publish
from penstock.load.publish import publish_in, publish_load
from penstock.model.load import Kind
from penstock.model.ranges import Range
from penstock.target.registry import find_store
from privileges import superuser
from proxy import Proxy

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline


def rows(db: str, query: str) -> list[Any]:
    with psycopg.connect(db) as connection:
        return connection.execute(query).fetchall()


def validated_load(db: str, start: int, until: int, pipeline: Pipeline | None = None, kind: Kind = "live") -> int:
    """A validated load of partition 0 with a row for each offset."""
    declared = pipeline or declare("topic", indexes=[["id"]])
    load_id = stage_rows(db, [Range(0, start, until)], pipeline=declared, kind=kind)
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
    return load_id


def test_publish_shows_the_rows_moves_the_position_and_covers_the_range_together(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)

    published = publish_load(db, bound(db), load_id)

    assert published.by_this_call
    assert rows(db, "select count(*), min(_offset), max(_offset) from analytics.orders") == [(100, 0, 99)]
    assert rows(db, "select position from penstock.positions") == [(100,)]
    assert rows(db, "select from_offset, until_offset, load_id from penstock.covered") == [(0, 100, load_id)]
    assert rows(db, "select state from penstock.loads") == [("published",)]
    assert rows(db, "select * from penstock.gaps") == []


def test_a_publish_that_waits_in_vain_names_what_it_waited_for_and_finds_the_holder(
    db: str, bound: Bind, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_id = validated_load(db, 0, 100)
    kafka = bound(db)
    monkeypatch.setitem(LIMITS, "lock_timeout", "100ms")

    with (
        locked(db, "select from penstock.pipeline where name = 'orders' for update"),
        pytest.raises(
            PenstockError, match=f"orders load {load_id} .*nothing is published: .* row of pipeline"
        ) as raised,
    ):
        publish_load(db, kafka, load_id)

    assert raised.value.next_step == advice.FIND_LOCK
    assert publish_load(db, kafka, load_id).by_this_call


def test_a_replay_waits_for_a_query_that_is_planned_and_reads_no_row_yet(db: str, bound: Bind) -> None:
    whole = validated_load(db, 0, 100)
    kafka = bound(db)
    publish_load(db, kafka, whole)
    replay = validated_load(db, 20, 50, kind="replay")
    with (
        psycopg.connect(db, autocommit=True) as gate,
        psycopg.connect(db, autocommit=True) as reader,
        ThreadPoolExecutor() as threads,
    ):
        reader.execute(
            "create function pg_temp.wait_while_planned() returns int immutable language plpgsql as"
            " $$ begin perform pg_advisory_lock(1); perform pg_advisory_unlock(1); return 1; end $$"
        )
        gate.execute("select pg_advisory_lock(1)")
        # The planner plans the count first, then the FROM, where it runs the function itself.
        query = (
            "select (select count(*) from analytics.orders), p.planned"
            " from (select pg_temp.wait_while_planned() as planned offset 0) p"
        )
        read = threads.submit(lambda: reader.execute(query).fetchone())
        await_blocked(db)
        published = threads.submit(publish_load, db, kafka, replay)
        await_true(lambda: published.done() or _waits_for_a_table(db), "the replay waits, or is done")
        gate.execute("select pg_advisory_unlock(1)")
        assert read.result(timeout=240) == (100, 1)
        assert published.result(timeout=240).by_this_call
    assert rows(db, "select count(*), count(distinct _load_id) from analytics.orders") == [(100, 2)]


def _waits_for_a_table(db: str) -> bool:
    return bool(rows(db, "select 1 from pg_locks where locktype = 'relation' and not granted"))


def test_a_second_publish_changes_nothing_and_reports_it(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    publish_load(db, bound(db), load_id)

    again = publish_load(db, bound(db), load_id)

    assert not again.by_this_call
    assert again.message == f"orders: load {load_id} is published already; it stays."
    assert rows(db, "select count(*) from analytics.orders") == [(100,)]


def test_two_publishes_of_one_load_at_once_end_with_one_publish(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    outcomes: list[bool] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(publish_load(db, bound(db), load_id).by_this_call))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == [False] * 4 + [True]
    assert rows(db, "select count(*) from analytics.orders") == [(100,)]


def test_a_load_whose_position_moved_is_fenced_and_publishes_nothing(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    with psycopg.connect(db) as connection:
        connection.execute("update penstock.position set position = 60")

    with pytest.raises(FencedError, match="the position of partition 0 is no longer 0"):
        publish_load(db, bound(db), load_id)

    assert rows(db, "select count(*) from analytics.orders") == [(0,)]
    assert rows(db, "select * from penstock.covered") == []
    assert rows(db, "select position from penstock.positions") == [(60,)]


def test_offsets_that_are_covered_already_are_refused_by_the_constraint(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    publish_load(db, bound(db), load_id)
    overlapping = validated_load(db, 50, 150, kind="backfill")

    with pytest.raises(FencedError, match="offsets of this load are published already"):
        publish_load(db, bound(db), overlapping)

    assert rows(db, "select count(*) from analytics.orders") == [(100,)]


@pytest.mark.parametrize("state", ["planned", "staging", "staged", "superseded", "discarded", "failed"])
def test_only_a_validated_load_is_published(db: str, bound: Bind, state: str) -> None:
    load_id = validated_load(db, 0, 100)
    with psycopg.connect(db) as connection:
        connection.execute("update penstock.load set state = %s", [state])

    with pytest.raises(FencedError, match=f"the load is {state}, not validated"):
        publish_load(db, bound(db), load_id)

    assert rows(db, "select count(*) from analytics.orders") == [(0,)]


def test_a_held_load_is_not_published_and_the_next_steps_are_named(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    with psycopg.connect(db) as connection:
        connection.execute("update penstock.load set state = 'held', cause = 'amount below 0'")

    with pytest.raises(HeldError, match=f"penstock approve {load_id}"):
        publish_load(db, bound(db), load_id)


def test_readers_neither_wait_for_a_publish_nor_see_half_of_it(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    publish_load(db, bound(db), load_id)
    second = validated_load(db, 100, 300)
    with psycopg.connect(db) as reader, psycopg.connect(db) as publisher:
        reader.execute("set lock_timeout = '1s'")
        reader.execute("select count(*) from analytics.orders").fetchone()  # an open transaction holds its lock
        publish_in(publisher, second)
        assert reader.execute("select count(*) from analytics.orders").fetchone() == (100,)
        publisher.commit()
        assert reader.execute("select count(*) from analytics.orders").fetchone() == (300,)


def test_publish_reads_no_row_of_the_load(db: str) -> None:
    """Attaching must not scan the table: the CHECK of the attempt's table implies the bounds of the partition."""
    load_id = validated_load(db, 0, 1000)
    with psycopg.connect(db) as connection:
        connection.execute("set client_min_messages = debug1")
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        publish_in(connection, load_id)

    assert any("implied by existing constraints" in message for message in notices), notices
    assert not any("verifying table" in message for message in notices), notices


def test_autovacuum_leaves_staged_rows_alone_until_they_are_published(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    options = "select reloptions from pg_class where relkind = 'r' and relname = '{}'"
    assert rows(db, options.format(f"load_{load_id}_1")) == [(["autovacuum_enabled=false"],)]
    publish_load(db, bound(db), load_id)

    assert rows(db, options.format(f"orders_load_{load_id}")) == [(None,)]


@pytest.mark.parametrize(("configured", "used"), [("64MB", "256MB"), ("1GB", "1GB"), ("8GB", "2GB")])
def test_the_memory_of_the_key_is_that_of_the_role_within_bounds(db: str, configured: str, used: str) -> None:
    load_id = stage_rows(db, [Range(0, 0, 10)], keyed=False)
    with open_ledger(db) as connection:
        connection.execute(f"set maintenance_work_mem = '{configured}'".encode())
        load = read_load(connection, load_id)
        find_store(load.declaration).seal(connection, load, load.attempt)
        assert connection.execute("show maintenance_work_mem").fetchone() == (used,)


def test_indexes_are_built_before_publish_and_attached_with_it(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    publish_load(db, bound(db), load_id)

    assert rows(
        db,
        "select count(*) from pg_inherits i join pg_class c on c.oid = i.inhparent where c.relname = 'orders_id_idx'",
    ) == [(1,)]


def test_a_nullable_column_declared_later_is_added_to_the_target(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    publish_load(db, bound(db), load_id)
    wider = declare("topic", columns={"id": {"type": "bigint", "required": True, "path": "$.id"},
                                      "note": {"type": "text", "path": "$.note"},
                                      "city": {"type": "text", "path": "$.city"}})  # fmt: skip
    load_id = validated_load(db, 100, 200, wider)
    publish_load(db, bound(db), load_id)

    assert rows(db, "select count(*), count(city) from analytics.orders") == [(200, 0)]


@pytest.mark.parametrize("state", ["staged", "validated", "held"])
def test_a_load_that_was_staged_before_the_target_gained_a_column_is_published(
    state: str, db: str, bound: Bind
) -> None:
    before = stage_rows(db, [Range(0, 0, 10)])
    with open_ledger(db) as connection:
        load = read_load(connection, before)
        if state == "validated":
            pass_checks(connection, load)
        if state == "held":
            hold_load(connection, load, "too little")
    wider = declare("topic", columns={**COLUMNS, "more": {"type": "varchar(7)", "path": "$.more"}}, indexes=[["more"]])
    publish_load(db, bound(db), validated_load(db, 10, 20, wider, kind="backfill"))

    if state == "staged":
        with open_ledger(db) as connection:
            pass_checks(connection, read_load(connection, before))
    if state == "held":
        approve_load(db, bound(db), before, "ann", "it is right")
    else:
        publish_load(db, bound(db), before)

    assert rows(db, "select count(*), count(more) from analytics.orders") == [(20, 0)]
    assert rows(db, "select count(*) from pg_indexes where indexdef like '%%(more)%%'") == [(3,)]


def test_tables_of_old_attempts_are_dropped_after_publish(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    with psycopg.connect(db) as connection:
        connection.execute(f"create table penstock_stage.load_{load_id}_0 (a int)")

    publish_load(db, bound(db), load_id)

    assert rows(db, "select c.relname from pg_class c where relnamespace = 'penstock_stage'::regnamespace") == []


def test_a_broken_connection_while_dropping_old_tables_is_not_a_failed_publish(
    db: str, bound: Bind, caplog: pytest.LogCaptureFixture
) -> None:
    load_id = validated_load(db, 0, 100)
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(f"create table penstock_stage.load_{load_id}_0 (a int)")
        connection.execute(f"alter table penstock_stage.load_{load_id}_0 owner to penstock_loader")
        connection.execute(
            "create function public.die() returns event_trigger language plpgsql as"
            " $$begin perform pg_terminate_backend(pg_backend_pid()); end$$;"
            "create event trigger die on sql_drop execute function public.die()"
        )

    published = publish_load(db, bound(db), load_id)

    assert published.by_this_call
    assert rows(db, "select state from penstock.loads") == [("published",)]
    assert "tables of old attempts stay" in caplog.text


def test_options_of_the_uri_are_kept_beside_those_of_penstock(db: str) -> None:
    with connect(psycopg.conninfo.make_conninfo(db, options="-c search_path=analytics")) as connection:
        assert connection.execute("show search_path").fetchone() == ("pg_catalog, analytics",)
        assert connection.execute("show lock_timeout").fetchone() == ("1min",)


WAIT_AT_COMMIT = (
    "create function public.wait_for_test() returns trigger language plpgsql as"
    " $$begin perform pg_advisory_xact_lock(4711); return null; end$$;"
    "create constraint trigger wait after insert on penstock.coverage deferrable initially deferred"
    " for each row execute function wait_for_test()"
)


def test_a_commit_whose_reply_was_lost_is_found_published(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(WAIT_AT_COMMIT)
    address = psycopg.conninfo.conninfo_to_dict(db)
    with Proxy(str(address["host"]), int(str(address["port"]))) as proxy, psycopg.connect(db) as gate:
        gate.execute("select pg_advisory_xact_lock(4711)")
        through = psycopg.conninfo.make_conninfo(db, host="127.0.0.1", port=proxy.port)
        with ThreadPoolExecutor(1) as pool:
            publishing = pool.submit(publish_load, through, bound(db), load_id)
            await_blocked(db)
            proxy.cut()
            gate.rollback()  # the server finishes COMMIT, and its reply is lost
            published = publishing.result(60)

    assert not published.by_this_call
    assert published.load.state == "published"
    assert rows(db, "select count(*) from analytics.orders") == [(100,)]


def test_a_backend_that_died_within_commit_is_reported_as_rolled_back(db: str, bound: Bind) -> None:
    load_id = validated_load(db, 0, 100)
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(WAIT_AT_COMMIT)
    with psycopg.connect(db) as gate, ThreadPoolExecutor(1) as pool:
        gate.execute("select pg_advisory_xact_lock(4711)")
        publishing = pool.submit(publish_load, db, bound(db), load_id)
        await_blocked(db)
        gate.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        )
        with pytest.raises(PenstockError, match="rolled the publish back; nothing is published"):
            publishing.result(60)
        gate.rollback()

    assert rows(db, "select count(*) from analytics.orders") == [(0,)]
    assert publish_load(db, bound(db), load_id).by_this_call


def test_a_commit_that_cannot_be_looked_up_has_an_unknown_outcome(
    db: str, bound: Bind, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_id = validated_load(db, 0, 100)
    monkeypatch.setattr(publish, "LOOK_UP_SECONDS", 1)
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(WAIT_AT_COMMIT)
    address = psycopg.conninfo.conninfo_to_dict(db)
    with psycopg.connect(db) as gate, ThreadPoolExecutor(1) as pool:
        gate.execute("select pg_advisory_xact_lock(4711)")
        with Proxy(str(address["host"]), int(str(address["port"]))) as proxy:
            through = psycopg.conninfo.make_conninfo(db, host="127.0.0.1", port=proxy.port)
            publishing = pool.submit(publish_load, through, bound(db), load_id)
            await_blocked(db)
            proxy.refusing = True  # from now on the database is out of reach
            proxy.cut()
            with pytest.raises(OutcomeUnknownError, match="broke during COMMIT"):
                publishing.result(60)
        gate.rollback()
    await_true(lambda: rows(db, "select state from penstock.load") == [("published",)], "COMMIT went through")

    assert not publish_load(db, bound(db), load_id).by_this_call
