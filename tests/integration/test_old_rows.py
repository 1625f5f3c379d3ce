"""Old rows of the target where only the results matter: dropped with their leaves, and never missed in silence."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import COUNTS, CUSTOMERS, NEWEST, declare
from fix_loads import stage_rows
from penstock.backfill.request import ByOffsets, Span
from penstock.decide.rollback import roll_back
from penstock.errors import WrongUseError
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import pass_checks, read_load
from penstock.ledger.pipeline import find_pipeline
from penstock.load.publish import publish_in
from penstock.load.results.proof import begin_proof, find_result_faults
from penstock.load.results.rebuild import rebuild_result
from penstock.maintenance.run import maintain, preview_maintenance
from penstock.status.results import read_results
from penstock.verify.rotation import Rotation
from penstock.waiting import wait_until
from privileges import superuser

if TYPE_CHECKING:
    from fix_loaders import Start
    from whole_loads import Loader

PROVABLE = COUNTS | {"check": "select customer, count(*) from rows group by customer"}


def order(number: int, customer: str, op: str = "U") -> bytes:
    return json.dumps({"id": number, "customer": customer, "op": op}).encode()


def newest(loader: Loader) -> list[Any]:
    return loader.query("select customer, id from analytics.newest order by 1")


def counts(loader: Loader) -> list[Any]:
    return loader.query("select customer, orders from analytics.counts order by 1")


def make_old(loader: Loader, *loads: int) -> None:
    for load in loads:
        tamper(loader, f"update penstock.load set published_at = now() - interval '31 days' where load_id = {load}")


def rows(loader: Loader) -> list[Any]:
    return loader.query("select _offset, customer from analytics.orders order by 1")


def tamper(loader: Loader, statement: str) -> None:
    with psycopg.connect(superuser(loader.db)) as connection:
        connection.execute(statement.encode())


def assert_dropped_loads_take_their_turns(loader: Loader, loads: list[int]) -> None:
    rotation = Rotation(30, at_least=0)
    tamper(loader, f"update penstock.load set counted_at = null where load_id in ({loads[0]}, {loads[1]})")
    verified = loader.verify(0, rotation=rotation)
    assert (verified.faults, verified.loads_skipped, verified.loads_dropped) == ((), 2, 2)
    assert loader.query("select count(*) from penstock.load where counted_at is null") == [(0,)], "they are counted"
    assert loader.verify(0, rotation=rotation).loads_skipped == 3, "nothing is new: the oldest leaf takes its turn"

    # Somebody brings rows back: there should be none.
    tamper(loader, "create table analytics.orders_default partition of analytics.orders default")
    tamper(
        loader,
        "insert into analytics.orders select (jsonb_populate_record(t, jsonb_build_object("
        f"'_load_id', {loads[0]}, '_offset', 1))).* from analytics.orders t limit 1",
    )
    for _ in range(2):
        found = loader.verify(0)
        assert [(fault.kind, fault.load) for fault in found.faults] == [("rows_too_many", loads[0])]
    assert "delete from <target> where _load_id" in " ".join(found.next_steps)
    assert "--replace" not in " ".join(found.next_steps), "a replay would be refused"
    tamper(loader, "drop table analytics.orders_default")
    assert loader.verify(0).faults == ()


def test_old_rows_are_dropped_and_what_needs_them_is_refused(start: Start) -> None:
    account, loader = start(1, columns=CUSTOMERS, results=[NEWEST, PROVABLE], keep_rows_days=30, reader="native")
    loads = []
    for sent in (
        [order(0, "c0"), order(1, "c1"), order(2, "c2")],
        [order(3, "c0", "D"), order(4, "c3")],
        [order(5, "c1")],
        [order(6, "c1")],
    ):
        account.send(sent)
        loads.append(loader.load())
    assert maintain(loader.db, loader.pipeline, lambda _: None).dropped.leaves == 0
    make_old(loader, *loads[:2])
    assert preview_maintenance(loader.db, loader.pipeline).dropped.leaves == 2
    assert len(rows(loader)) == 7

    assert maintain(loader.db, loader.pipeline, lambda _: None).dropped.leaves == 2

    assert rows(loader) == [(5, "c1"), (6, "c1")]
    with open_ledger(loader.db) as connection:
        listed = read_results(connection, "orders", loader.pipeline)
    assert {each.table: each.provable for each in listed} == {"analytics.newest": True, "analytics.counts": False}
    current = [("c1", 6), ("c2", 2), ("c3", 4)]
    assert newest(loader) == current
    assert counts(loader) == [("c0", 2), ("c1", 3), ("c2", 1), ("c3", 1)]
    assert loader.query("select load_id, from_offset, until_offset, rows from penstock.dropped_rows order by 1") == [
        (loads[0], 0, 3, 3),
        (loads[1], 3, 5, 2),
    ]
    verified = loader.verify()
    assert (verified.faults, verified.rows, verified.chunks_reread) == ((), 2, 4)
    assert "The rows of 2 loads were dropped (keep_rows_days)" in verified.summary
    assert_dropped_loads_take_their_turns(loader, loads)
    with pytest.raises(WrongUseError, match="were dropped"):
        roll_back(loader.db, loads[0], "ann", "a test")
    with pytest.raises(WrongUseError, match=r"the rows of load \d+ were dropped \(keep_rows_days\) and cannot be"):
        loader.plan_backfill(ByOffsets((Span(0, 2, 6),)), replace=True)
    with pytest.raises(WrongUseError, match="would need all rows"):
        rebuild_result(loader.db, loader.pipeline, "analytics.newest", "ann", lambda _: None)

    roll_back(loader.db, loads[3], "ann", "the row before it is kept")
    assert newest(loader) == [("c1", 5), *current[1:]]
    with pytest.raises(WrongUseError, match="1 keys of a result would need rows that were dropped"):
        roll_back(loader.db, loads[2], "ann", "the row before it is dropped")
    assert newest(loader) == [("c1", 5), *current[1:]]
    loader.backfill(ByOffsets((Span(0, 5, 6),)), replace=True)
    assert newest(loader) == [("c1", 5), *current[1:]]
    assert counts(loader) == [("c0", 2), ("c1", 2), ("c2", 1), ("c3", 1)]
    assert loader.verify().faults == ()


def test_holes_are_not_looked_for_among_dropped_rows(start: Start) -> None:
    account, loader = start(1, columns=CUSTOMERS, results=[NEWEST], keep_rows_days=30, reader="native")
    loads = []
    for number in range(3):
        account.transact([order(number, "c0"), order(number, "c1")], commit=True)
        loads.append(loader.load())
    tamper(loader, f"delete from analytics.orders where _load_id = {loads[1]} and _offset = 3")
    tamper(loader, f"update penstock.coverage set rows = 1, holes = 2 where load_id = {loads[1]}")
    alarm = [("hole", loads[1])]
    make_old(loader, loads[0])
    assert maintain(loader.db, loader.pipeline, lambda _: None).dropped.leaves == 1

    verified = loader.verify()
    assert [(fault.kind, fault.load) for fault in verified.faults if fault.kind == "hole"] == alarm
    assert verified.holes == {"marker": 2, "unexplained": 1, "unnamed": 1}
    make_old(loader, loads[1])
    assert maintain(loader.db, loader.pipeline, lambda _: None).dropped.leaves == 1
    verified = loader.verify()
    assert [(fault.kind, fault.load) for fault in verified.faults if fault.kind == "hole"] == alarm
    assert verified.holes == {"marker": 2, "unexplained": 1, "unnamed": 1}


def test_the_columns_of_a_result_may_have_any_name_of_the_ledger(start: Start) -> None:
    names = ("state", "offsets", "partition", "generation_id", "pipeline_id", "load_id", "rows", "next_offset")
    columns = {name: {"type": "text" if name == "state" else "bigint"} for name in names}
    result = {"table": "analytics.newest", "mode": "upsert", "key": ["state", "offsets"]}
    account, loader = start(1, columns=columns, results=[result], keep_rows_days=30, reader="native")
    loads = []
    for number, states in enumerate((["a", "b"], ["a"], ["a"])):
        account.send(
            [json.dumps(dict.fromkeys(names, number) | {"state": each, "offsets": 7}).encode() for each in states]
        )
        loads.append(loader.load())
    make_old(loader, loads[0])
    assert loader.verify().faults == ()

    assert maintain(loader.db, loader.pipeline, lambda _: None).dropped.leaves == 1
    assert loader.verify().faults == ()
    roll_back(loader.db, loads[2], "ann", "the row before it is kept")
    assert loader.query("select state, rows from analytics.newest order by 1") == [("a", 1), ("b", 0)]
    assert loader.verify().faults == ()


def test_no_leaf_is_dropped_while_results_are_proven(db: str) -> None:
    pipeline = declare("topic", results=[NEWEST | {"key": ["id"], "deleted_when": None}], keep_rows_days=30)
    load_id = stage_rows(db, pipeline=pipeline)
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
        publish_in(connection, load_id)
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("update penstock.load set published_at = now() - interval '31 days'")
        connection.commit()
        waiting = "select 1 from pg_locks where not granted and mode = 'AccessExclusiveLock'"
        with open_ledger(db) as proving, ThreadPoolExecutor(1) as pool:
            begin_proof(proving, pipeline.target)
            pipeline_id = find_pipeline(proving, "orders") or 0
            maintained = pool.submit(maintain, db, pipeline, lambda _: None)
            assert wait_until(lambda: maintained.done() or connection.execute(waiting).fetchone(), seconds=60)
            assert find_result_faults(proving, pipeline_id, pipeline.target, 1.0) == []
            proving.rollback()
            assert maintained.result().dropped.leaves == 1


def test_rows_stay_while_a_result_waits_for_a_rebuild(start: Start) -> None:
    account, loader = start(1, columns=CUSTOMERS, results=[NEWEST], keep_rows_days=30)
    account.send([order(0, "c0")])
    first = loader.load()
    make_old(loader, first)
    waiting = loader.pipeline.model_copy(
        update={"results": (loader.pipeline.results[0].model_copy(update={"deleted_when": None}),)}
    )
    loader.pipeline = waiting
    account.send([order(1, "c1")])
    second = loader.load()

    assert maintain(loader.db, waiting, lambda _: None).dropped.leaves == 0
    rebuild_result(loader.db, waiting, "analytics.newest", "ann", lambda _: None)
    assert maintain(loader.db, waiting, lambda _: None).dropped.leaves == 1
    assert newest(loader) == [("c0", 0), ("c1", 1)]

    # As a merge around the dropped leaf would leave it.
    leaf = f"partition analytics.orders_load_{second}"
    tamper(loader, f"alter table analytics.orders detach {leaf}")
    tamper(loader, f"alter table analytics.orders attach {leaf} for values from ({first}) to ({second + 1})")
    make_old(loader, second)
    assert maintain(loader.db, waiting, lambda _: None).dropped.leaves == 1
    assert loader.query("select load_id from penstock.dropped_rows order by 1") == [(first,), (second,)]
    assert (rows(loader), loader.verify().faults) == ([], ())
