"""The database or the broker dies in the middle of a load: no record is lost or doubled, and the run reports it."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from declaring import write_declaration
from fix_kafka import MakeTopic
from loading_process import LoadingProcess, await_blocked, await_true, query
from penstock_stack.broker import Broker
from penstock_stack.postgres import Postgres
from privileges import superuser
from producing import Account
from proving import Watcher, find_faults


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic, tmp_path: Path) -> Account:
    account = Account(kafka.bootstrap, make_topic(2))
    write_declaration(tmp_path, account.topic)
    account.send_orders(2000)
    return account


COPYING = "select 1 from pg_stat_activity where datname = current_database() and query ilike 'copy%%'"
STATES = {"stage": "lock table penstock.stage_task in share mode", "publish": "lock table penstock.event"}


@pytest.mark.parametrize("step", STATES)
def test_postgresql_stopped_immediately_leaves_nothing_half_done(
    step: str, db: str, postgres: Postgres, account: Account, environment: dict[str, str]
) -> None:
    with Watcher(db):
        loading = LoadingProcess(environment, "orders")
        await_true(lambda: query(db, "select 1 from penstock.load"), "the load is planned")
        gate = psycopg.connect(superuser(db))
        gate.execute(STATES[step])
        await_blocked(db)
        postgres.stop("immediate")
        gate.close()
        postgres.start()
        code, _, stderr = loading.finish()
        if code != 0:  # the run reports the failure; the next run loads the records
            assert "Next:" in stderr
            assert query(db, "select count(*) from penstock.covered") == [(0,)]
            code, _, stderr = LoadingProcess(environment, "orders").finish()
        assert code == 0, stderr

    assert find_faults(db, account) == []


def test_a_broker_killed_and_restarted_during_stage_costs_nothing(
    db: str, kafka: Broker, account: Account, environment: dict[str, str]
) -> None:
    account.send_orders(200_000, first=10_000)
    with Watcher(db):
        loading = LoadingProcess(environment, "orders")
        await_true(lambda: query(db, "select 1 from penstock.load where state = 'staging'"), "the load is staged")
        await_true(
            lambda: query(
                db,
                "select 1 from pg_stat_activity where query ilike 'copy%%' or application_name like 'penstock%%task%%'",
            ),
            "a task copies",
        )
        kafka.kill()
        kafka.start()
        code, _, stderr = loading.finish()
        if code != 0:
            assert "Next:" in stderr
            code, _, stderr = LoadingProcess(environment, "orders").finish()
        assert code == 0, stderr

    assert find_faults(db, account) == []
