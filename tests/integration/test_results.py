"""Results in whole runs: their tables, rebuilds beside live loads, statements that fail, and the role of their SQL."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import COUNTS, CUSTOMERS, NEWEST, declare, describe
from fix_loads import stage_rows
from loading_process import await_blocked, locked
from penstock.decide.rollback import roll_back
from penstock.doctor.services import check_services
from penstock.errors import HeldError, PenstockError, WrongUseError
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import pass_checks, read_load
from penstock.ledger.pipeline import lock_pipeline
from penstock.load.publish import publish_in, publish_load
from penstock.load.results import rebuild, tables
from penstock.load.results.proof import find_result_faults
from penstock.load.results.rebuild import rebuild_result
from penstock.status.pipelines import read_status
from penstock.verify.run import verify_pipeline
from penstock.waiting import wait_until
from privileges import superuser

if TYPE_CHECKING:
    from fix_loaders import Start
    from fix_loads import Bind
    from penstock.model.health import Health
    from producing import Account
    from whole_loads import Loader


def order(number: int, customer: str, op: str = "U") -> bytes:
    return json.dumps({"id": number, "note": f"note {number}", "customer": customer, "op": op}).encode()


def begin(start: Start, *results: dict[str, Any]) -> tuple[Account, Loader]:
    account, loader = start(1, columns=CUSTOMERS, results=list(results))
    account.send([order(number, f"c{number % 3}") for number in range(9)])
    return account, loader


def change(loader: Loader, *results: dict[str, Any]) -> Loader:
    topic = loader.pipeline.topic
    return replace(loader, pipeline=declare(topic, columns=CUSTOMERS, results=list(results)))


def newest(loader: Loader) -> list[Any]:
    return loader.query("select customer, id from analytics.newest order by 1")


def counts(loader: Loader) -> list[Any]:
    return loader.query("select customer, orders from analytics.counts order by 1")


def health(loader: Loader) -> Health:
    with open_ledger(loader.settings.db) as connection:
        [status] = read_status(connection, loader.settings.kafka, [loader.pipeline])
    return status.health


def check(loader: Loader, *results: dict[str, Any]) -> list[tuple[bool, str]]:
    """The findings of `penstock check` about results."""
    found = check_services(loader.settings, [change(loader, *results).pipeline])
    return [(each.fits, each.told) for each in found if each.what.startswith("result ")]


def test_check_finds_mistakes_of_results_before_the_first_load(start: Start) -> None:
    _, loader = begin(start)
    right: list[dict[str, Any]] = [NEWEST, COUNTS | {"check": "select customer, count(*) from rows group by customer"}]
    wrong: list[tuple[dict[str, Any], str]] = [
        (NEWEST | {"deleted_when": "opp = 'D'"}, 'column "opp" does not exist'),
        (NEWEST | {"deleted_when": "exists (select from penstock.load)"}, "permission denied for schema penstock"),
        (COUNTS | {"statements": "insert into result select amount from added"}, 'column "amount" does not exist'),
        (COUNTS | {"statements": "delete from removed"}, "permission denied for view removed"),
        (COUNTS | {"check": "select customer from rows, counts"}, 'relation "counts" does not exist'),
        (NEWEST | {"table": "analytics.other"}, "exists, and it is not a result of this pipeline"),
        (NEWEST | {"table": "locked.newest"}, "the role may not create tables in the schema locked"),
    ]
    with psycopg.connect(superuser(loader.settings.db)) as connection:
        connection.execute("create schema analytics; grant all on schema analytics to public; create schema locked")
        connection.execute("create table analytics.other (n int)")

    assert [fits for fits, _ in check(loader, *right)] == [True, True]
    assert "a row with null in customer has no place in it" in check(loader, NEWEST)[0][1]
    for result, words in wrong:
        [(fits, told)] = check(loader, result)
        assert not fits
        assert words in told
    assert loader.query("select count(*) from pg_class where relname ~ 'newest|counts|tried'") == [(0,)]


def test_results_change_in_the_transaction_of_the_rows(start: Start) -> None:
    account, loader = begin(start, NEWEST, COUNTS)
    load = loader.load()

    assert newest(loader) == [("c0", 6), ("c1", 7), ("c2", 8)]
    assert counts(loader) == [("c0", 3), ("c1", 3), ("c2", 3)]

    account.send([order(9, "c1", "D"), order(10, "c3")])
    loader.load()
    assert newest(loader) == [("c0", 6), ("c2", 8), ("c3", 10)]
    roll_back(loader.settings.db, load, "ann", "a test")
    assert newest(loader) == [("c3", 10)]
    assert counts(loader) == [("c1", 1), ("c3", 1)]


def test_a_result_of_a_pipeline_with_rows_waits_for_its_rebuild(start: Start) -> None:
    account, loader = begin(start)
    loader.load()
    changed = change(loader, NEWEST, COUNTS)
    account.send([order(9, "c1")])
    changed.load()

    assert changed.query("select state from penstock.results") == [("waiting",), ("waiting",)]
    assert "results that wait for a rebuild: analytics.newest, analytics.counts" in health(changed).cause
    assert health(changed).next_step.startswith("`penstock rebuild orders analytics.newest`")
    for table in ("analytics.newest", "analytics.counts"):
        rebuild_result(changed.settings.db, changed.pipeline, table, "ann", lambda _: None)
    assert newest(changed) == [("c0", 6), ("c1", 9), ("c2", 8)]
    assert counts(changed) == [("c0", 3), ("c1", 4), ("c2", 3)]
    account.send([order(10, "c0")])
    changed.load()
    assert counts(changed) == [("c0", 4), ("c1", 4), ("c2", 3)]


def test_a_rebuild_repairs_a_result_and_writes_only_what_differs(start: Start) -> None:
    _, loader = begin(start, NEWEST, COUNTS)
    loader.load()
    with psycopg.connect(loader.settings.db) as connection:
        connection.execute("update analytics.newest set id = 99 where customer = 'c1'")
        connection.execute("insert into analytics.counts values ('c9', 9)")

    first = rebuild_result(loader.settings.db, loader.pipeline, "analytics.newest", "ann", lambda _: None)
    second = rebuild_result(loader.settings.db, loader.pipeline, "analytics.counts", "ann", lambda _: None)

    assert (first.written, first.deleted) == (1, 0)
    assert (second.written, second.deleted) == (0, 1)
    assert newest(loader) == [("c0", 6), ("c1", 7), ("c2", 8)]


def test_loads_and_rollbacks_during_a_rebuild_are_counted_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "ROWS_OF_PIECE", 1)  # a piece is one load
    account, loader = begin(start, NEWEST, COUNTS)
    loads = [loader.load()]
    for number in (9, 10, 11):
        account.send([order(number, "c1"), order(number + 100, f"c{number}")])
        loads.append(loader.load())
    with psycopg.connect(loader.settings.db) as connection:
        connection.execute("truncate analytics.counts, analytics.newest")
    reports: list[str] = []

    def meanwhile(line: str) -> None:
        reports.append(line)
        if len(reports) == 2:  # two of four loads are read
            roll_back(loader.settings.db, loads[1], "ann", "a load that is read")
            roll_back(loader.settings.db, loads[3], "ann", "a load that is not read")
            account.send([order(20, "c1"), order(21, "c20")])
            loader.load()

    rebuild_result(loader.settings.db, loader.pipeline, "analytics.counts", "ann", meanwhile)
    assert len(reports) == 3
    assert counts(loader) == [("c0", 3), ("c1", 5), ("c10", 1), ("c2", 3), ("c20", 1)]
    rebuild_result(loader.settings.db, loader.pipeline, "analytics.newest", "ann", lambda _: None)
    assert newest(loader) == [("c0", 6), ("c1", 20), ("c10", 110), ("c2", 8), ("c20", 21)]


def test_an_interrupted_rebuild_continues_where_it_stopped(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "ROWS_OF_PIECE", 1)
    account, loader = begin(start, COUNTS)
    for number in (9, 10):
        loader.load()
        account.send([order(number, "c1")])
    loader.load()
    with psycopg.connect(loader.settings.db) as connection:
        connection.execute("truncate analytics.counts")

    def stop(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild_result(loader.settings.db, loader.pipeline, "analytics.counts", "ann", stop)
    reports: list[str] = []
    rebuild_result(loader.settings.db, loader.pipeline, "analytics.counts", "ann", reports.append)

    assert len(reports) == 2  # the first of three loads was read before
    assert counts(loader) == [("c0", 3), ("c1", 5), ("c2", 3)]


REBUILD = """
import json, os
from penstock.declaration.pipeline import Pipeline
from penstock.load.results.rebuild import rebuild_result
pipeline = Pipeline.model_validate(json.loads(os.environ["PIPELINE"]))
rebuild_result(os.environ["DB"], pipeline, "analytics.counts", "ann", lambda _: None)
"""


def test_a_rebuild_that_is_killed_changes_nothing_and_continues(db: str) -> None:
    described = describe("topic", columns=CUSTOMERS, results=[COUNTS])
    load_id = stage_rows(db, pipeline=declare("topic", columns=CUSTOMERS, results=[COUNTS]))
    with open_ledger(db) as connection:
        connection.execute(f"update penstock_stage.load_{load_id}_1 set customer = 'c' || id % 10".encode())
        pass_checks(connection, read_load(connection, load_id))
        publish_in(connection, load_id)
    rows = "select customer, orders from analytics.counts order by 1"
    with psycopg.connect(db, autocommit=True) as connection:
        right = connection.execute(rows).fetchall()
        connection.execute("update analytics.counts set orders = orders + 1")
        connection.execute("delete from analytics.counts where customer = 'c3'")
        wrong = connection.execute(rows).fetchall()
        command, environment = (
            [sys.executable, "-c", REBUILD],
            {**os.environ, "DB": db, "PIPELINE": json.dumps(described)},
        )
        with locked(db, "lock table analytics.counts in share mode"):
            process = subprocess.Popen(command, env=environment)
            await_blocked(db)
            process.kill()
            process.wait(60)
        assert connection.execute("select state from penstock.results order by 1").fetchall() == [
            ("building",),
            ("current",),
        ]
        assert connection.execute(rows).fetchall() == wrong

        subprocess.run(command, env=environment, check=True, timeout=300)

        assert connection.execute(rows).fetchall() == right
        assert connection.execute("select state from penstock.results").fetchall() == [("current",)]


def test_a_table_whose_columns_changed_is_replaced_by_its_rebuild(start: Start) -> None:
    _, loader = begin(start, NEWEST)
    loader.load()
    changed = change(loader, NEWEST | {"columns": {"number": "id"}})

    rebuild_result(changed.settings.db, changed.pipeline, "analytics.newest", "ann", lambda _: None)

    assert changed.query("select customer, number from analytics.newest order by 1") == [
        ("c0", 6),
        ("c1", 7),
        ("c2", 8),
    ]
    assert changed.query("select count(*) from pg_class where relname like 'building%'") == [(0,)]


def test_statements_that_fail_hold_the_load_with_the_server_s_words(start: Start) -> None:
    account, loader = begin(start, COUNTS | {"statements": "insert into result select customer, 1 / 0 from added"})

    with pytest.raises(HeldError, match=r"result analytics\.counts: it refused a value \(DivisionByZero") as raised:
        loader.load()

    assert raised.value.load is not None
    assert "penstock rebuild orders analytics.counts" in raised.value.next_step
    assert loader.query("select state, cause from penstock.loads") == [
        ("held", "result analytics.counts: it refused a value (DivisionByZero, SQLSTATE 22012)")
    ]
    assert "result analytics.counts: it refused a value" in health(loader).cause
    assert "`penstock rebuild orders analytics.counts`. Then " in health(loader).next_step
    assert loader.query("select kind, next_step from penstock.incidents where ended_at is null") == [
        ("held_load", health(loader).next_step)
    ]
    corrected = change(loader, COUNTS)
    account.send([order(9, "c0")])
    corrected.load()
    assert counts(corrected) == [("c0", 4), ("c1", 3), ("c2", 3)]


ENDLESS = {"table": "analytics.endless", "mode": "sql", "key": ["id"], "columns": {"id": "bigint"},
           "statements": "select pg_sleep(600)"}  # fmt: skip


def validate(db: str, *results: dict[str, Any]) -> int:
    """Make a validated load of a pipeline with these results."""
    load_id = stage_rows(db, pipeline=declare("topic", results=list(results)))
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
    return load_id


@pytest.mark.parametrize(
    "result",
    [ENDLESS, NEWEST | {"key": ["id"], "deleted_when": "pg_sleep(600) is null"}],
    ids=["statements", "condition"],
)
def test_statements_that_never_end_hold_the_load_with_the_server_s_words(
    db: str, bound: Bind, monkeypatch: pytest.MonkeyPatch, result: dict[str, Any]
) -> None:
    monkeypatch.setattr(tables, "MINUTE", 0.01)  # of the 120 minutes of timeout_minutes
    load_id = validate(db, result)

    with pytest.raises(HeldError, match=r"canceling statement due to statement timeout \(timeout_minutes: 120\)"):
        publish_load(db, bound(db), load_id)

    with open_ledger(db) as connection:
        assert read_load(connection, load_id).state == "held"


def test_statements_that_a_person_cancels_hold_no_load(db: str, bound: Bind) -> None:
    load_id = validate(db, ENDLESS)
    kafka = bound(db)
    cancel = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'"
    with ThreadPoolExecutor(1) as pool, psycopg.connect(superuser(db), autocommit=True) as connection:
        published = pool.submit(publish_load, db, kafka, load_id)
        assert wait_until(lambda: connection.execute(cancel).fetchone(), seconds=60), "the statements run"
        with pytest.raises(PenstockError, match=r"canceling statement due to user request\. Nothing is published"):
            published.result()

    with open_ledger(db) as connection:
        assert read_load(connection, load_id).state == "validated"


@pytest.mark.parametrize(
    "statement",
    [
        "update penstock.load set cause = 'x'",
        "delete from analytics.orders",
        "insert into added select * from added",
        "select pg_read_file('/etc/passwd')",
        "set role penstock_loader; delete from analytics.orders",
        "select set_config('role', 'penstock_loader', true); delete from analytics.orders",
        "reset role",
        "commit",
        "alter table result add column more int",
        "create table analytics.other (n int)",
    ],
)
def test_the_statements_of_a_result_can_write_nothing_but_their_table(start: Start, statement: str) -> None:
    _, loader = begin(start, COUNTS | {"statements": statement})

    with pytest.raises(HeldError):
        loader.load()

    assert loader.query("select count(*) from penstock.covered") == [(0,)]


def test_a_condition_of_deletions_runs_as_the_role_of_results(start: Start) -> None:
    _, loader = begin(start, NEWEST | {"deleted_when": "exists (select from penstock.load)"})

    with pytest.raises(HeldError, match="permission denied for schema penstock"):
        loader.load()


def test_a_result_never_takes_over_a_table_that_exists(start: Start) -> None:
    _, loader = begin(start, NEWEST)
    with psycopg.connect(loader.settings.db) as connection:
        connection.execute("create schema analytics; create table analytics.newest (n int)")

    with pytest.raises(WrongUseError, match="exists, and it is not a result"):
        loader.load()


def test_two_pipelines_never_share_the_table_of_a_result(start: Start) -> None:
    _, loader = begin(start, NEWEST)
    loader.load()
    other = declare(loader.pipeline.topic, name="others", columns=CUSTOMERS, results=[NEWEST])

    with pytest.raises(WrongUseError, match=r"another pipeline of this database has the result analytics\.newest"):
        replace(loader, pipeline=other).load()


def test_a_rebuild_never_takes_over_a_table_that_exists(start: Start) -> None:
    _, loader = begin(start)
    loader.load()
    changed = change(loader, NEWEST)
    with psycopg.connect(loader.settings.db) as connection:
        connection.execute("create table analytics.newest (n int)")
        connection.execute("insert into analytics.newest values (1)")

    with pytest.raises(WrongUseError, match="exists, and it is not a result"):
        rebuild_result(changed.settings.db, changed.pipeline, "analytics.newest", "ann", lambda _: None)

    assert loader.query("select n from analytics.newest") == [(1,)]


def test_a_result_that_is_no_longer_declared_stays_as_it_is(start: Start) -> None:
    account, loader = begin(start, NEWEST)
    loader.load()
    account.send([order(9, "c0")])
    changed = change(loader)
    changed.load()

    assert newest(changed) == [("c0", 6), ("c1", 7), ("c2", 8)]
    assert changed.query("select count(*) from penstock.results") == [(0,)]
    assert changed.query("select relname from pg_class where relname like 'guards%'") == []
    again = change(loader, NEWEST)
    rebuild_result(again.settings.db, again.pipeline, "analytics.newest", "ann", lambda _: None)
    assert newest(again) == [("c0", 9), ("c1", 7), ("c2", 8)]


def test_publishing_again_changes_no_result(start: Start) -> None:
    _, loader = begin(start, COUNTS)
    load = loader.load()

    publish_load(loader.settings.db, loader.settings.kafka, load)

    assert counts(loader) == [("c0", 3), ("c1", 3), ("c2", 3)]
    with open_ledger(loader.settings.db) as connection:
        found = connection.execute("select load_id from penstock.result").fetchall()
    assert found == [(load,)]


def verify(loader: Loader, share: float = 1.0) -> list[str]:
    verified = verify_pipeline(loader.settings, loader.pipeline, "ann", share, lambda _settings, _id: None)
    assert verified is not None
    return [fault.message for fault in verified.faults if fault.kind == "result"]


def test_verify_compares_results_with_the_rows_of_the_target(start: Start) -> None:
    query = "select customer, count(*) from rows group by customer"
    _, loader = begin(start, NEWEST, COUNTS | {"check": query})
    loader.load()
    assert verify(loader, 0.0) == []
    with psycopg.connect(loader.settings.db) as connection:
        connection.execute("update analytics.newest set id = 99 where customer = 'c1'")
        connection.execute("delete from analytics.newest where customer = 'c2'")
        connection.execute("insert into analytics.counts values ('c9', 9)")
    with open_ledger(loader.settings.db) as connection:
        pipeline_id = lock_pipeline(connection, "orders") or 0
        found = find_result_faults(connection, pipeline_id, loader.pipeline.target, 1.0)

    assert [(fault.table, fault.message) for fault in found] == [
        (
            "analytics.newest",
            "of 3 keys 1 are missing, 0 are too many and 1 have other values than the rows of the target give",
        ),
        (
            "analytics.counts",
            "of 4 keys 0 are missing, 1 are too many and 0 have other values than the rows of the target give",
        ),
    ]
