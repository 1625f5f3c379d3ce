"""kill -9 at every point of a load: the next run loads every record exactly once, and its results are as exact.

The product has no hooks for this. A lock that the test holds in the database stops the load at the chosen point. Then
the test kills the load with its driver and Spark.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from declaring import write_declaration
from fix_kafka import MakeTopic
from loading_process import (
    LoadingProcess,
    await_blocked,
    await_true,
    find_descendants,
    locked,
    query,
    stopped_at_first_copy,
)
from penstock.declaration.pipeline import read_pipelines
from penstock.ledger.connection import open_ledger
from penstock.model.health import Health
from penstock.status.pipelines import read_status
from penstock_stack.broker import Broker
from privileges import superuser
from producing import Account, order
from proving import Watcher, describe_results, find_faults, find_result_faults

State = Callable[[str], None]


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic, tmp_path: Path) -> Account:
    """A topic of two partitions with plain, committed, aborted and invalid records; declared as `orders`."""
    account = Account(kafka.bootstrap, make_topic(2))
    write_declaration(tmp_path, account.topic, indexes=[["id"]], results=describe_results())
    account.send_orders(24_000)  # enough for two tasks: smaller chunks share one
    account.transact((order(number) for number in range(50)), commit=False)
    account.transact((order(number) for number in range(50)), commit=True)  # in both partitions, some of them
    account.send([b"{broken", None, b'{"note": "no id"}'])
    return account


@contextmanager
def stopped_when_planned(db: str) -> Iterator[None]:
    """The stage step waits for the lock of the target before it begins an attempt."""
    with locked(db, "select pg_advisory_xact_lock(hashtextextended('analytics.orders', 0))"):
        yield


@contextmanager
def stopped_when_half_staged(db: str) -> Iterator[None]:
    """One task has committed; the transaction of another waits at its row in stage_task."""
    with psycopg.connect(superuser(db)) as connection:
        # A trigger of this test: every task except task 0 waits.
        connection.execute(
            "create function public.wait_for_test() returns trigger language plpgsql as"
            " $$begin if new.task > 0 then perform pg_advisory_xact_lock(4711); end if; return new; end$$;"
            "create trigger wait before insert on penstock.stage_task for each row execute function wait_for_test()"
        )
        connection.commit()
        connection.execute("select pg_advisory_xact_lock(4711)")
        await_true(lambda: query(db, "select 1 from penstock.stage_task"), "one task has committed")
        yield
        assert query(db, "select task from penstock.stage_task") == [(0,)]
        connection.rollback()


@contextmanager
def stopped_when_staged(db: str) -> Iterator[None]:
    """The checks have run; storing their results waits."""
    with locked(db, "lock table penstock.check_result in access exclusive mode"):
        yield


@contextmanager
def stopped_when_validated(db: str) -> Iterator[None]:
    """Publish waits at its first change, the move of a position."""
    await_true(lambda: query(db, "select 1 from penstock.load"), "the load is planned")
    with locked(db, "lock table penstock.position in share mode"):
        yield


@contextmanager
def stopped_between_results(db: str) -> Iterator[None]:
    """Publish has changed the first result, and waits at the second one."""
    await_true(lambda: query(db, "select to_regclass('analytics.totals')") != [(None,)], "the results have tables")
    with locked(db, "lock table analytics.totals in share mode"):
        yield


@contextmanager
def stopped_before_commit(db: str) -> Iterator[None]:
    """Publish has done all its statements except the last one and the COMMIT."""
    await_true(lambda: query(db, "select 1 from penstock.load"), "the load is planned")
    with locked(db, "lock table penstock.event in access exclusive mode"):
        yield


POINTS = {
    "planned": stopped_when_planned,
    "reading": stopped_at_first_copy,
    "half_staged": stopped_when_half_staged,
    "staged": stopped_when_staged,
    "validated": stopped_when_validated,
    "between_results": stopped_between_results,
    "before_commit": stopped_before_commit,
}


@pytest.mark.parametrize("point", POINTS)
def test_kill_before_commit_publishes_no_row_and_the_next_run_loads_every_record(
    point: str, db: str, account: Account, environment: dict[str, str]
) -> None:
    with Watcher(db, totals="analytics.totals"):
        loading = LoadingProcess(environment, "orders", "--run-id", "first")
        with POINTS[point](db):
            await_blocked(db)
            loading.kill()
        assert query(db, "select count(*) from penstock.covered") == [(0,)]
        account.send_orders(100, first=5000)

        code, document, stderr = LoadingProcess(environment, "orders").finish()

    assert code == 0, stderr
    assert document["state"] == "published"
    assert find_faults(db, account) == []
    assert find_result_faults(db, account) == []


def test_a_load_killed_while_commit_runs_is_found_published_and_not_loaded_twice(
    db: str, account: Account, environment: dict[str, str]
) -> None:
    with psycopg.connect(superuser(db)) as connection:
        # Deferred: the server is already working on COMMIT when it waits here.
        connection.execute(
            "create function public.wait_for_test() returns trigger language plpgsql as"
            " $$begin perform pg_advisory_xact_lock(4711); return null; end$$;"
            "create constraint trigger wait after insert on penstock.coverage deferrable initially deferred"
            " for each row execute function wait_for_test()"
        )
    with Watcher(db, totals="analytics.totals"):
        loading = LoadingProcess(environment, "orders", "--run-id", "first")
        with locked(db, "select pg_advisory_xact_lock(4711)"):
            waiting = "select 1 from pg_locks where locktype = 'advisory' and objid = 4711 and not granted"
            await_true(lambda: query(db, waiting), "COMMIT waits for the lock of the test")
            loading.kill()
        await_true(lambda: query(db, "select 1 from penstock.load where state = 'published'"), "COMMIT has succeeded")

        code, document, stderr = LoadingProcess(environment, "orders", "--run-id", "first").finish()
        assert code == 0, stderr
        assert "published already; it stays" in stderr
        assert document["load"] == query(db, "select load_id from penstock.load")[0][0]
        code, document, stderr = LoadingProcess(environment, "orders").finish()

    assert (code, document["state"]) == (0, "empty"), stderr
    assert find_faults(db, account) == []
    assert find_result_faults(db, account) == []


def test_a_run_after_a_kill_after_commit_finds_no_new_records(
    db: str, account: Account, environment: dict[str, str]
) -> None:
    loading = LoadingProcess(environment, "orders")
    with Watcher(db, totals="analytics.totals"):
        await_true(lambda: query(db, "select 1 from penstock.load where state = 'published'"), "the load is published")
        loading.kill()
        code, document, stderr = LoadingProcess(environment, "orders").finish()

    assert (code, document["state"]) == (0, "empty"), stderr
    assert find_faults(db, account) == []
    assert find_result_faults(db, account) == []


def test_a_load_is_stalled_when_no_process_works_on_it_any_more(
    db: str, kafka: Broker, account: Account, environment: dict[str, str], tmp_path: Path
) -> None:
    [pipeline] = read_pipelines(tmp_path).values()

    def judge() -> Health:
        with open_ledger(db) as connection:
            return read_status(connection, {"bootstrap.servers": kafka.bootstrap}, [pipeline])[0].health

    def await_workers(count: int) -> None:
        workers = (
            "select count(*) from pg_stat_activity"
            " where application_name = 'penstock at work' and datname = current_database()"
        )
        await_true(lambda: query(db, workers) == [(count,)], f"{count} processes work on the load")

    loading = LoadingProcess(environment, "orders")
    with stopped_at_first_copy(db):
        await_workers(2)  # the command, and the driver
        driver = find_descendants(loading.process.pid)
        assert judge().state == "loading"
        loading.process.kill()
        await_workers(1)
        assert judge().state == "loading"
        for pid in driver:
            os.kill(pid, signal.SIGKILL)
        await_workers(0)
        stalled = judge()
    loading.process.communicate()

    assert stalled.state == "stalled"
    assert stalled.cause.startswith("load 1 is staging since 20")
    assert "penstock run orders" in stalled.next_step
    assert LoadingProcess(environment, "orders").finish()[0] == 0
    assert judge().state == "ok"
