"""Killed between rows and offsets, a plain loader loses or doubles records; Penstock commits both together."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from fix_kafka import MakeTopic
from loading_process import await_blocked, await_true, locked, query
from penstock_stack.broker import Broker
from producing import Account
from proving import Watcher, find_faults
from proxy import OFFSET_COMMIT, KafkaProxy
from whole_loads import MakeLoader

LOADER = Path(__file__).parents[1] / "plain_loader.py"
# The product's own function, in a process that can be killed.
PUBLISH = (
    "import os, sys; from penstock.load.publish import publish_load;"
    " publish_load(os.environ['PENSTOCK_DB'], {'bootstrap.servers': sys.argv[2]}, int(sys.argv[1]))"
)


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    account = Account(kafka.bootstrap, make_topic(2))
    account.send_orders(500)
    return account


@pytest.fixture
def plain(db: str) -> str:
    """The database with a table for the plain loader."""
    with psycopg.connect(db) as connection:
        connection.execute("create table public.orders (id bigint)")
    return db


@contextmanager
def running(db: str, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process; at the end of the block it is killed if it still runs, and its end is awaited."""
    process = subprocess.Popen([sys.executable, *argv], env={**os.environ, "PENSTOCK_DB": db})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run_plainly(db: str, order: str, bootstrap: str, topic: str) -> None:
    """Run the plain loader to its end."""
    with running(db, str(LOADER), order, bootstrap, topic) as process:
        assert process.wait(60) == 0


def count(db: str) -> tuple[int, int]:
    """The number of rows in the plain loader's table, and the number of different orders."""
    rows, orders = query(db, "select count(*), count(distinct id) from public.orders")[0]
    return rows, orders


def test_a_plain_loader_killed_after_its_offset_commit_loses_the_records_it_read(plain: str, account: Account) -> None:
    argv = (str(LOADER), "commit_first", account.bootstrap, account.topic)
    with locked(plain, "lock table public.orders in share mode"), running(plain, *argv) as process:
        await_blocked(plain)  # it waits to insert: the offsets are committed
        process.kill()
        process.wait()
    account.send_orders(20, first=1000)
    run_plainly(plain, "commit_first", account.bootstrap, account.topic)

    assert count(plain) == (20, 20)  # of 520; and no run failed


def test_a_plain_loader_whose_commit_fails_after_its_insert_doubles_the_records(
    plain: str, account: Account, faulty_network: KafkaProxy
) -> None:
    argv = (str(LOADER), "insert_first", faulty_network.address, account.topic)
    faulty_network.lose_requests(OFFSET_COMMIT, 1)
    with running(plain, *argv) as process:
        await_true(lambda: faulty_network.lost[OFFSET_COMMIT], "the commit of the offsets is lost")
        process.kill()
        process.wait()
    account.send_orders(20, first=1000)
    run_plainly(plain, "insert_first", account.bootstrap, account.topic)

    assert count(plain) == (1020, 520)


# The first lock stops the publish before it moves positions, the second before its COMMIT.
BEFORE_OFFSETS, BEFORE_COMMIT = (
    "lock table penstock.position in share mode",
    "lock table penstock.event in access exclusive mode",
)


@pytest.mark.parametrize("point", [BEFORE_OFFSETS, BEFORE_COMMIT], ids=["rows are ready", "offsets are moved"])
def test_penstock_killed_at_the_same_points_has_neither_and_the_next_run_loads_each(
    point: str, db: str, account: Account, make_loader: MakeLoader
) -> None:
    loader = make_loader(account.topic)
    with Watcher(db):
        load = loader.plan()
        assert load is not None
        loader.stage(load.load_id)
        with locked(db, point), running(db, "-c", PUBLISH, str(load.load_id), account.bootstrap) as process:
            await_blocked(db)
            process.kill()
            process.wait()
        assert query(db, "select count(*) from analytics.orders") == [(0,)]
        assert query(db, "select distinct position from penstock.positions") == [(0,)]
        account.send_orders(20, first=1000)
        loaded = loader.run()

    assert loaded is not None
    assert loaded.rows == 520
    assert find_faults(db, account) == []


def test_penstock_killed_after_the_commit_has_both_and_the_next_run_loads_new_records(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    loader = make_loader(account.topic)
    with Watcher(db):
        load = loader.plan()
        assert load is not None
        loader.stage(load.load_id)
        with running(db, "-c", PUBLISH, str(load.load_id), account.bootstrap) as process:
            await_true(
                lambda: query(db, "select 1 from penstock.load where state = 'published'"), "the load is published"
            )
            process.kill()
            process.wait()
        account.send_orders(20, first=1000)
        loaded = loader.run()

    assert loaded is not None
    assert loaded.rows == 20
    assert query(db, "select count(*), count(distinct id) from analytics.orders") == [(520, 520)]
    assert find_faults(db, account) == []
