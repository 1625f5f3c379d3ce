"""Two processes over the same offsets: one wins, the other gets one clear error."""

from __future__ import annotations

import signal
from pathlib import Path

import psycopg
import pytest

from declaring import write_declaration
from fix_kafka import MakeTopic
from loading_process import LoadingProcess, await_blocked, await_true, locked, query
from penstock_stack.broker import Broker
from privileges import superuser
from producing import Account
from proving import Watcher, find_faults


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic, tmp_path: Path) -> Account:
    account = Account(kafka.bootstrap, make_topic(2))
    write_declaration(tmp_path, account.topic)
    account.send_orders(2000)
    return account


def test_the_same_load_run_twice_at_once_is_published_once(
    db: str, account: Account, environment: dict[str, str]
) -> None:
    with Watcher(db):
        both = [LoadingProcess(environment, "orders", "--run-id", "same") for _ in range(2)]
        ends = [loading.finish() for loading in both]

    assert query(db, "select count(*) from penstock.load where state = 'published'") == [(1,)]
    assert any(code == 0 for code, _, _ in ends), ends
    assert all(code in (0, 6) for code, _, _ in ends), ends
    assert find_faults(db, account) == []


def test_a_zombie_that_wakes_after_another_has_published_is_fenced_and_changes_nothing(
    db: str, account: Account, environment: dict[str, str]
) -> None:
    with Watcher(db):
        zombie = LoadingProcess(environment, "orders")
        # Its driver works on the load, and assumes that the load is current.
        await_true(lambda: query(db, "select 1 from penstock.load where application_id <> ''"), "the zombie stages")
        zombie.signal(signal.SIGSTOP)
        account.send_orders(500, first=9000)
        code, document, stderr = LoadingProcess(environment, "orders").finish()
        assert (code, document["state"]) == (0, "published"), stderr
        zombie.signal(signal.SIGCONT)
        code, document, stderr = zombie.finish()

    assert code == 6, stderr
    assert document["state"] == "fenced"
    assert "Next:" in stderr
    assert find_faults(db, account) == []
    assert query(db, "select relname from pg_class where relnamespace = 'penstock_stage'::regnamespace") == []


def test_a_zombie_stopped_inside_a_transaction_holds_nobody_up_for_long_and_is_ended(
    db: str, account: Account, environment: dict[str, str]
) -> None:
    with Watcher(db):
        zombie = LoadingProcess(environment, "orders")
        await_true(lambda: query(db, "select 1 from penstock.load"), "the zombie has planned")
        with locked(db, "lock table penstock.check_result in access exclusive mode"):
            await_blocked(db)
            zombie.signal(signal.SIGSTOP)
        code, document, stderr = LoadingProcess(environment, "orders").finish()
        assert (code, document["state"]) == (0, "published"), stderr
        zombie.signal(signal.SIGCONT)
        code, document, stderr = zombie.finish()

    assert code in (1, 6), stderr
    assert "Next: run again" in stderr
    assert find_faults(db, account) == []


def test_the_checkers_find_a_loader_whose_compare_and_set_was_taken_out(
    db: str, account: Account, environment: dict[str, str]
) -> None:
    """The checkers must fire for a loader that moves positions and covers offsets without a check."""
    with psycopg.connect(superuser(db)) as connection:
        # Without the compare-and-set: positions do not move, and coverage accepts overlaps.
        connection.execute(
            "create function public.forget() returns trigger language plpgsql as $$begin"
            " new.position := old.position; return new; end$$;"
            "create trigger forget before update on penstock.position for each row execute function forget();"
            "alter table penstock.coverage drop constraint coverage_never_overlaps"
        )
    for _ in range(2):
        code, _, stderr = LoadingProcess(environment, "orders").finish()
        assert code == 0, stderr

    faults = find_faults(db, account)

    assert any("is in the table 2 times" in fault for fault in faults), faults[:5]
    assert any("coverage" in fault for fault in faults), faults[:5]
