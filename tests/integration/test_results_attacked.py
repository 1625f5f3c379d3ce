"""Results under attack: statements that leave their role, other sessions, and changes of the tables by hand."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import COLUMNS, declare
from penstock.decide.settle import approve_load
from penstock.errors import HeldError, WrongUseError
from penstock.load.results.rebuild import rebuild_result
from privileges import superuser

if TYPE_CHECKING:
    from fix_loaders import Start
    from producing import Account
    from whole_loads import Loader

TOTALS: dict[str, Any] = {
    "table": "analytics.totals",
    "mode": "sql",
    "key": ["digit"],
    "columns": {"digit": "bigint", "rows": "bigint"},
    "statements": """
        insert into result as r (digit, rows)
        select id % 10, sum(sign) from (select id, 1 as sign from added union all select id, -1 from removed) changed
        group by 1
        on conflict (digit) do update set rows = r.rows + excluded.rows""",
}
NEWEST: dict[str, Any] = {"table": "analytics.newest", "mode": "upsert", "key": ["id"], "columns": {"note": "note"}}
TO_FUNCTION = "create function pg_temp.f() returns bigint language sql as 'delete from analytics.orders returning 1'; "
ATTACKS = {
    "a program": "copy (select 1) to program 'true'",
    "a file": "copy result from '/etc/passwd'",
    "a block that commits": "do $$ begin commit; end $$",
    "a role in a block": "do $$ begin set local role penstock_loader; end $$",
    "another user": "set session authorization penstock_loader",
    "the target by a block": "do $$ begin delete from analytics.orders; end $$",
    "the ledger by a name": "set search_path = penstock; update load set cause = 'x'",
    "the table by its own name": "delete from analytics.totals",
    "the table of another result": "delete from analytics.newest",
    "guards": "select count(*) from penstock_results.guards_1",
    "a large object": "select lo_create(4711)",
    "a function": TO_FUNCTION,
    "a view that hides the catalog": TO_FUNCTION + "create temp view pg_class as select pg_temp.f() as oid",
    "a table where the next result has one": "create temp table penstock_affected (n int)",
    "a schema": "create schema other",
    "a setting": "set synchronous_commit = off",
    "a path": "select set_config('search_path', 'public', false)",
    "a cursor that outlives the role": "declare c cursor with hold for select lo_create(4712)",
    "a prepared statement of the driver": "deallocate all; prepare _pg3_0 as delete from analytics.orders",
    "all temporary tables": "discard temp",
    "its own password": "alter role penstock_result_writer password 'x' login",
}


def begin(start: Start, *results: dict[str, Any], count: int = 20) -> tuple[Account, Loader]:
    account, loader = start(1, results=list(results))
    account.send_orders(count)
    return account, loader


@pytest.mark.parametrize("attack", ATTACKS)
def test_statements_that_do_more_than_write_their_table_hold_the_load(start: Start, attack: str) -> None:
    _, loader = begin(start, TOTALS | {"statements": ATTACKS[attack]}, NEWEST)

    with pytest.raises(HeldError, match=r"result analytics\.totals"):
        loader.load()

    assert loader.query("select count(*) from penstock.covered") == [(0,)]
    assert loader.query("select count(*) from pg_largeobject_metadata") == [(0,)]
    assert loader.query("select rolcanlogin from pg_roles where rolname = 'penstock_result_writer'") == [(False,)]


def test_statements_beyond_a_limit_of_postgresql_hold_the_load(start: Start) -> None:
    long = "(select string_agg(md5(n::text), '') from generate_series(1, 300) n)"  # an index takes 2,704 bytes
    columns = {"text": "text", "rows": "bigint"}
    statements = f"insert into result select {long}, count(*) from added"
    _, loader = begin(start, TOTALS | {"key": ["text"], "columns": columns, "statements": statements})

    with pytest.raises(HeldError, match="index row"):
        loader.load()


def test_a_record_whose_key_no_index_holds_is_quarantined_alone(start: Start) -> None:
    account, loader = begin(start, NEWEST | {"key": ["note"], "columns": {"number": "id"}})
    texts = {"fits": "x" * 2_600, "is too long": "".join(map(str, range(2_000)))}
    account.send([json.dumps({"id": number, "note": note}).encode() for number, note in enumerate(texts.values())])

    loader.load()

    assert loader.query('select "offset", reason from penstock.quarantined') == [(21, "too_long")]
    assert loader.query("select count(*), max(length(note)) from analytics.newest") == [(21, 2_600)]


def test_an_upsert_keeps_and_proves_columns_of_json(start: Start) -> None:
    account, loader = start(2, columns={**COLUMNS, "doc": {"type": "json"}}, results=[NEWEST | {"columns": None}])
    documents = [b'{"id": 1, "doc": {"b":  %d}}' % number for number in range(3)]
    account.send([*documents, *documents])
    loader.load()
    rows = loader.query("select doc::text, _offset from analytics.newest")
    newest = "select doc::text, _offset from analytics.orders order by _timestamp desc, _partition desc, 2 desc limit 1"
    assert rows == loader.query(newest)
    assert loader.verify().faults == ()
    with psycopg.connect(superuser(loader.db)) as connection:
        connection.execute("update analytics.newest set doc = '{}'")
    assert [fault.kind for fault in loader.verify().faults] == ["result"]

    rebuild_result(loader.db, loader.pipeline, "analytics.newest", "ann", lambda _: None)

    assert loader.query("select doc::text, _offset from analytics.newest") == rows


def test_a_result_that_cannot_be_compared_is_a_fault_and_hides_no_other(start: Start) -> None:
    check = "select id % 10, count(*) from rows group by 1"
    _, loader = begin(start, NEWEST, TOTALS | {"check": check}, TOTALS | {"table": "analytics.more", "check": check})
    loader.load()
    with psycopg.connect(superuser(loader.db)) as connection:
        connection.execute("alter table analytics.newest drop column note; drop table analytics.totals")
        connection.execute("delete from analytics.more where digit = 3")

    faults = [fault.message for fault in loader.verify().faults]

    assert faults[:2] == [
        'result analytics.newest: it cannot be compared: column "note" does not exist.',
        'result analytics.totals: it cannot be compared: relation "analytics.totals" does not exist.',
    ]
    assert [fault.partition(" are ")[0] for fault in faults[2:]] == ["result analytics.more: of 10 keys 1"]


def test_statements_may_set_memory_and_planner(start: Start) -> None:
    _, loader = begin(start, TOTALS | {"statements": "set local work_mem = '64MB';" + TOTALS["statements"]})

    loader.load()

    assert loader.query("select sum(rows) from analytics.totals") == [(20,)]


def test_the_statements_of_many_results_run_in_one_session(start: Start) -> None:
    tables = [f"analytics.totals_{number}" for number in range(10)]
    account, loader = begin(start, *(TOTALS | {"table": table} for table in tables))
    loader.load()
    account.send_orders(10, first=100)

    loader.load()

    assert [loader.query(f"select sum(rows) from {table}") for table in tables] == [[(30,)]] * len(tables)


BY_HAND = (
    "alter table analytics.{0} drop column {1}",
    "alter table analytics.{0} drop constraint {0}_pkey",
    "alter table analytics.{0} add more int not null default 0; alter table analytics.{0} alter more drop default",
    "drop table analytics.{0}",
)


@pytest.mark.parametrize(("table", "column"), [("newest", "note"), ("totals", "rows")])
def test_a_result_that_a_person_altered_holds_loads_until_its_rebuild(start: Start, table: str, column: str) -> None:
    account, loader = begin(start, NEWEST, TOTALS)
    loader.load()
    for statement in BY_HAND:
        account.send_orders(10)
        with psycopg.connect(superuser(loader.db)) as connection:
            connection.execute(statement.format(table, column).encode())
        with pytest.raises(HeldError, match=rf"result analytics\.{table}") as raised:
            loader.load()
        assert raised.value.load is not None
        rebuild_result(loader.db, loader.pipeline, f"analytics.{table}", "ann", lambda _: None)
        approve_load(loader.db, loader.settings.kafka, raised.value.load, "ann", "a test")
    assert loader.query("select count(*) from analytics.newest") == [(20,)]
    assert loader.query("select sum(rows) from analytics.totals") == [(60,)]


def test_a_long_transaction_of_a_reader_delays_no_publish_and_sees_one_state(start: Start) -> None:
    account, loader = begin(start, NEWEST, TOTALS)
    loader.load()
    sums = "select (select count(*) from analytics.newest), (select sum(rows) from analytics.totals)"
    with psycopg.connect(superuser(loader.db)) as reader:
        reader.execute("set transaction isolation level repeatable read")
        before = reader.execute(sums.encode()).fetchall()
        account.send_orders(10, first=100)
        loader.load()
        rebuild_result(loader.db, loader.pipeline, "analytics.totals", "ann", lambda _: None)
        assert reader.execute(sums.encode()).fetchall() == before == [(20, 20)]
    assert loader.query(sums) == [(30, 30)]


def test_pipelines_publish_their_results_at_the_same_time(start: Start) -> None:
    account, first = begin(start, NEWEST, TOTALS)
    results = [NEWEST | {"table": "analytics.newest_of_others"}, TOTALS | {"table": "analytics.totals_of_others"}]
    second = replace(first, pipeline=declare(account.topic, name="others", results=results))
    for number in range(3):
        loads = [(loader, loader.plan()) for loader in (first, second)]
        for loader, load in loads:
            assert load is not None
            loader.stage(load.load_id)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda each: each[0].publish(each[1].load_id), loads))
        account.send_orders(10, first=100 * number)
    for table in ("analytics.totals", "analytics.totals_of_others"):
        assert first.query(f"select sum(rows) from {table}") == [(40,)]


def test_a_target_never_takes_the_table_of_a_result(start: Start) -> None:
    account, loader = begin(start, NEWEST)
    loader.load()
    other = declare(account.topic, name="others", columns=COLUMNS, target="analytics.newest")

    with pytest.raises(WrongUseError):
        replace(loader, pipeline=other).load()

    assert loader.query("select count(*) from analytics.newest") == [(20,)]
