"""Redrives: a record is in the quarantine or in the table, whatever happens, and a rollback returns it."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import COLUMNS, declare, write_declaration
from loading_process import BIN, await_blocked, locked
from penstock.backfill.redrive import Redriven, _plan, redrive
from penstock.backfill.request import ByOffsets, Span
from penstock.decide.quarantine import drop_records
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.decide.settle import approve_load
from penstock.errors import FencedError, HeldError, PenstockError, RuleCrashedError, WrongUseError
from penstock.ledger.connection import open_ledger
from penstock.ledger.quarantine import Selection
from penstock.ledger.redrive import choose_records
from penstock.ledger.work_lock import working_on
from penstock.load.publish import publish_load
from penstock.load.redrive import stage_records
from penstock.load.validate import validate_load
from penstock.status.pipelines import read_status
from privileges import superuser
from proving import find_faults

if TYPE_CHECKING:
    from pathlib import Path

    from fix_loaders import Start
    from producing import Account
    from whole_loads import Loader

AMOUNTS = {**COLUMNS, "amount": {"type": "integer"}}


def rule(least: int) -> list[dict[str, Any]]:
    return [{"name": "least", "where": f"amount >= {least}"}]


def amount(number: int, value: object) -> bytes:
    return json.dumps({"id": number, "amount": value}).encode()


def load_all(start: Start, partitions: int = 2, **declared: Any) -> tuple[Account, Loader]:
    """Load records of which three fail the rule in partition 0, one in partition 1, and two are rejected."""
    account, loader = start(partitions, columns=AMOUNTS, rules=rule(0), **declared)
    account.send([amount(number, number - 2) for number in range(20)], partition=0)
    account.send([b"no JSON", amount(5, -9)], partition=0)
    account.send([amount(5, "many"), amount(6, 6), amount(7, -1)], partition=partitions - 1, key=b"key")
    loader.load()
    return account, loader


def change(loader: Loader, **declared: Any) -> Loader:
    return replace(loader, pipeline=declare(loader.pipeline.topic, columns=AMOUNTS, **declared))


def bring_back(loader: Loader, *, dry_run: bool = False, **selected: Any) -> Redriven:
    selection = Selection("orders", **selected)
    return redrive(loader.settings, loader.pipeline, selection, "ann", lambda _: None, dry_run=dry_run)


def places(loader: Loader) -> list[Any]:
    return loader.query('select partition, "offset", reason from penstock.quarantined order by 1, 2')


BEFORE = [
    (0, 0, "rule"), (0, 1, "rule"), (0, 20, "bad_json"), (0, 21, "rule"), (1, 0, "wrong_type"), (1, 2, "rule"),
]  # fmt: skip


def test_records_that_pass_today_are_published_and_the_others_stay(start: Start) -> None:
    account, loader = load_all(start)
    assert places(loader) == BEFORE
    today = change(loader, rules=rule(-5))

    outcome = bring_back(today)

    assert (outcome.chosen, outcome.passing, len(outcome.loads)) == (6, 3, 1)
    assert dict(outcome.rejected) == {("bad_json", None): 1, ("rule", "least"): 1, ("wrong_type", None): 1}
    assert places(loader) == [(0, 20, "bad_json"), (0, 21, "rule"), (1, 0, "wrong_type")]
    assert loader.query("select _partition, _offset, amount from analytics.orders where amount < 0 order by 1, 2") == [
        (0, 0, -2), (0, 1, -1), (1, 2, -1),
    ]  # fmt: skip
    assert find_faults(loader.db, account) == []
    verified = loader.verify()
    assert (verified.faults, verified.rows, verified.rows_compared) == ((), 22, 22)
    assert loader.query("select kind, state, rows from penstock.loads order by load_id") == [
        ("live", "published", 19), ("redrive", "discarded", 3), ("redrive", "published", 3),
    ]  # fmt: skip
    assert loader.query("select actor, what from penstock.event where what like 'redriv%' order by event_id") == [
        ("ann", "redrive planned"), ("ann", "redrive planned"), ("ann", "redriven"),
    ]  # fmt: skip


def test_a_dry_run_counts_and_changes_nothing(start: Start) -> None:
    _, loader = load_all(start)
    covered = loader.covered()

    outcome = bring_back(change(loader, rules=[]), dry_run=True, reason="rule")

    assert (outcome.chosen, outcome.passing, outcome.loads) == (4, 4, [])
    assert (places(loader), loader.covered()) == (BEFORE, covered)
    assert loader.query("select count(*) from analytics.orders") == [(19,)]
    assert loader.query("select count(*) from pg_class where relnamespace = 'penstock_stage'::regnamespace") == [(0,)]


def test_one_record_and_the_records_of_a_rule_can_be_chosen(start: Start) -> None:
    account, loader = load_all(start)
    today = change(loader, rules=[])

    assert bring_back(today, partition=0, offset=21).passing == 1
    assert bring_back(today, rule="least", load=1).passing == 3
    with pytest.raises(WrongUseError, match="no quarantined record with contents is selected by rule least"):
        bring_back(today, rule="least")

    assert places(loader) == [(0, 20, "bad_json"), (1, 0, "wrong_type")]
    assert find_faults(loader.db, account) == []
    assert loader.verify().faults == ()


POINTS = {
    "plan": "lock table penstock.event in share mode",
    "stage": "lock table penstock.stage_task in share mode",
    "validate": "lock table penstock.check_result in share mode",
    "publish": "lock table penstock.coverage in share mode",
}


@pytest.mark.parametrize("point", POINTS)
def test_a_redrive_killed_at_any_point_leaves_each_record_in_one_place(
    start: Start, tmp_path: Path, point: str
) -> None:
    account, loader = load_all(start)
    write_declaration(tmp_path, account.topic, columns=AMOUNTS)
    environment = {
        **os.environ, "PENSTOCK_DB": loader.db, "PENSTOCK_KAFKA": loader.bootstrap, "PENSTOCK_PIPELINES": str(tmp_path),
    }  # fmt: skip
    command = [str(BIN / "penstock"), "quarantine", "redrive", "orders", "--rule", "least"]
    with locked(loader.db, POINTS[point]):
        process = subprocess.Popen(command, env=environment)
        try:
            await_blocked(loader.db)
        finally:
            process.kill()
            process.wait()
    assert places(loader) == BEFORE
    assert find_faults(loader.db, account) == []

    done = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)["passing"] == 4
    assert places(loader) == [(0, 20, "bad_json"), (1, 0, "wrong_type")]
    assert find_faults(loader.db, account) == []
    assert loader.verify().faults == ()
    assert loader.query("select count(*) from penstock.loads where state not in ('published', 'discarded')") == [(0,)]


def test_the_rollback_of_a_redrive_returns_its_records_to_the_quarantine(start: Start) -> None:
    account, loader = load_all(start)
    before = loader.query('select * from penstock.quarantined order by partition, "offset"')
    today = change(loader, rules=[])
    (load_id,) = bring_back(today, reason="rule").loads

    moved = roll_back(loader.db, load_id, "ann", "too early")

    assert "4 records are in the quarantine again." in moved.message
    assert loader.query('select * from penstock.quarantined order by partition, "offset"') == before
    assert (loader.gaps(), find_faults(loader.db, account)) == ([], [])
    assert loader.verify().faults == ()
    with pytest.raises(WrongUseError, match="by a new redrive"):
        undo_rollback(loader.db, load_id, "ann", "now")
    assert bring_back(today, reason="rule").passing == 4
    assert find_faults(loader.db, account) == []
    assert loader.verify().faults == ()


def test_a_load_of_quarantined_records_only_is_published_again_by_the_rollback(start: Start) -> None:
    account, loader = start(columns=AMOUNTS, rules=rule(0))
    account.send([amount(number, -1) for number in range(5)])
    source = loader.load()
    today = change(loader, rules=[])
    (load_id,) = bring_back(today).loads
    assert loader.state(source) == "superseded"
    assert find_faults(loader.db, account) == []

    roll_back(loader.db, load_id, "ann", "too early")

    assert loader.state(source) == "published"
    assert len(places(loader)) == 5
    assert find_faults(loader.db, account) == []
    assert loader.verify().faults == ()


def test_records_return_also_after_another_redrive_took_the_rest_of_their_load(start: Start) -> None:
    account, loader = start(columns=AMOUNTS, rules=rule(0))
    account.send([amount(number, number - 6) for number in range(6)])
    source = loader.load()
    (first,) = bring_back(change(loader, rules=rule(-3))).loads
    (second,) = bring_back(change(loader, rules=[])).loads
    assert loader.state(source) == "superseded"

    for load_id in (first, second):
        assert "3 records are in the quarantine again." in roll_back(loader.db, load_id, "ann", "too early").message
        assert loader.state(source) == "published"
        assert (loader.gaps(), find_faults(loader.db, account)) == ([], [])

    assert len(places(loader)) == 6
    assert loader.verify().faults == ()


def test_records_of_a_rolled_back_load_return_with_the_undo_of_its_rollback(start: Start) -> None:
    account, loader = load_all(start)
    before = places(loader)
    source = loader.query("select min(load_id) from penstock.load")[0][0]
    (load_id,) = bring_back(change(loader, rules=[]), reason="rule").loads

    roll_back(loader.db, source, "ann", "wrong")
    moved = roll_back(loader.db, load_id, "ann", "wrong too")
    assert f"4 offsets are gaps until `penstock rollback {source} --undo" in moved.message
    undo_rollback(loader.db, source, "ann", "right")

    assert places(loader) == before
    assert (loader.gaps(), find_faults(loader.db, account)) == ([], [])
    assert loader.verify().faults == ()


def test_no_copy_of_a_record_stays_after_a_redrive_that_it_did_not_pass(start: Start) -> None:
    _, loader = load_all(start)
    bring_back(change(loader, rules=rule(0)), dry_run=True)
    bring_back(change(loader, rules=rule(-1)))
    assert loader.query("select count(*) from penstock.quarantine q join penstock.load l using (load_id)"
                        " where l.kind = 'redrive'") == [(0,)]  # fmt: skip


def test_records_that_have_left_the_quarantine_meanwhile_stop_the_publish(start: Start) -> None:
    _, loader = load_all(start)
    today = change(loader, rules=[])
    with open_ledger(loader.db) as connection:
        records = choose_records(connection, Selection("orders", reason="rule"), 100, None)
    load_id = _plan(loader.db, today.pipeline, records, "ann")
    stage_records(today.settings, load_id)
    assert validate_load(loader.db, load_id, None, today.settings.kafka).passed
    with working_on(loader.db, load_id):  # a redrive that no process works on would be discarded
        assert bring_back(today, partition=0, offset=21).passing == 1

    with pytest.raises(FencedError, match="1 of the 4 records have left the quarantine"):
        publish_load(loader.db, loader.settings.kafka, load_id)

    assert loader.query("select count(*) from analytics.orders") == [(20,)]
    assert len(places(loader)) == 5


class Background(Thread):
    """A redrive of all rows that fail a rule, in a thread; `outcome` is its result, or its error."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(daemon=True)
        self.loader = loader
        self.outcome: Redriven | PenstockError | None = None

    def run(self) -> None:
        try:
            self.outcome = bring_back(self.loader, reason="rule")
        except PenstockError as error:
            self.outcome = error

    def finish(self) -> Redriven | PenstockError | None:
        self.join(60)
        assert not self.is_alive(), "the redrive does not end"
        return self.outcome


def test_a_redrive_whose_record_was_dropped_meanwhile_is_superseded_at_once(start: Start) -> None:
    account, loader = load_all(start)
    today = change(loader, rules=[])
    redriving = Background(today)
    with locked(loader.db, POINTS["validate"]):
        redriving.start()
        await_blocked(loader.db)
        drop_records(loader.db, Selection("orders", partition=0, offset=21), "bob", "a test order")
    error = redriving.finish()

    assert isinstance(error, FencedError)
    assert error.next_step.startswith("redrive those that are left: `penstock quarantine redrive orders …`")
    cause = "1 of the 4 records have left the quarantine since the redrive was planned; nothing is published."
    assert loader.query("select state, cause from penstock.loads where load_id = 2") == [("superseded", cause)]
    assert loader.query("select count(*) from pg_class where relnamespace = 'penstock_stage'::regnamespace") == [(0,)]
    assert loader.query("select count(*) from penstock.incidents where state = 'open'") == [(0,)]
    assert bring_back(today, reason="rule").passing == 3
    assert find_faults(loader.db, account) == []


def test_a_record_dropped_before_it_is_read_is_counted_as_left(start: Start) -> None:
    account, loader = load_all(start)
    redriving = Background(change(loader, rules=[]))
    with locked(loader.db, POINTS["plan"]):
        redriving.start()
        await_blocked(loader.db)
        drop = 'update penstock.quarantine set dropped_at = now(), value = null where partition = 0 and "offset" = 21'
        with psycopg.connect(superuser(loader.db)) as connection:
            connection.execute(drop)
    outcome = redriving.finish()

    assert isinstance(outcome, Redriven)
    assert (outcome.chosen, outcome.passing, outcome.left) == (4, 3, 1)
    assert outcome.describe("orders", dry_run=False) == [
        "orders: 3 of 4 records are published.",
        "  1 have left the quarantine meanwhile: dropped, or brought back by another redrive",
    ]
    assert find_faults(loader.db, account) == []


def test_a_redrive_whose_rule_cannot_run_ends_as_failed_until_the_next_one(start: Start) -> None:
    account, loader = load_all(start)
    broken = change(loader, rules=[{"name": "broken", "where": "no_such_function(amount)"}])
    with pytest.raises(RuleCrashedError, match="the rule broken cannot run"):
        bring_back(broken, dry_run=True, reason="rule")
    assert loader.query("select count(*) from penstock.incidents") == [(0,)]

    with pytest.raises(RuleCrashedError, match="the rule broken cannot run"):
        bring_back(broken, reason="rule")

    (state, cause), *_ = loader.query("select state, cause from penstock.loads where load_id = 3")
    assert (state, cause.startswith("the rule broken cannot run")) == ("failed", True)
    incidents = "select kind, load_id, message, state, ended_why from penstock.incidents"
    assert loader.query(incidents) == [("failing_run", 3, cause, "open", None)]
    assert places(loader) == BEFORE
    assert bring_back(change(loader, rules=[]), reason="rule").passing == 4
    assert loader.query(incidents) == [("failing_run", 3, cause, "ended", "a later redrive replaces it")]
    assert find_faults(loader.db, account) == []


def test_a_redrive_is_not_published_after_the_rollback_of_its_source(start: Start) -> None:
    account, loader = load_all(start)
    today = change(loader, rules=[])
    with open_ledger(loader.db) as connection:
        records = choose_records(connection, Selection("orders", reason="rule"), 100, None)
    load_id = _plan(loader.db, today.pipeline, records, "ann")
    stage_records(today.settings, load_id)
    assert validate_load(loader.db, load_id, None, today.settings.kafka).passed
    roll_back(loader.db, 1, "ann", "too early")

    with pytest.raises(FencedError, match="4 of the 4 records have left the quarantine"):
        publish_load(loader.db, loader.settings.kafka, load_id)

    undo_rollback(loader.db, 1, "ann", "not so")
    assert places(loader) == BEFORE
    assert find_faults(loader.db, account) == []


def test_a_check_holds_a_redrive_and_a_person_approves_it(start: Start) -> None:
    account, loader = load_all(start)
    check = {"expect": "expect_column_values_to_be_between", "column": "amount", "min_value": 0}
    today = change(loader, checks=[check])

    with pytest.raises(HeldError, match=r"orders load 2.*expect_column_values_to_be_between") as held:
        bring_back(today, reason="rule")
    assert "its records stay in the quarantine" in str(held.value)
    ((next_step,),) = loader.query("select next_step from penstock.incidents where load_id = 2")
    assert next_step in str(held.value)
    with open_ledger(loader.db) as connection:
        (found,) = read_status(connection, loader.settings.kafka, [today.pipeline])
    assert (found.health.state, "load 2" in found.health.cause) == ("ok", True)
    assert places(loader) == BEFORE
    approve_load(loader.db, loader.settings.kafka, 2, "ann", "refunds")

    assert len(places(loader)) == 2
    assert find_faults(loader.db, account) == []


def test_a_record_is_brought_back_after_its_column_was_widened(start: Start) -> None:
    account, loader = load_all(start)
    account.send([amount(1, 10**12)])
    loader.load()
    with psycopg.connect(loader.db) as connection:
        connection.execute("alter table analytics.orders alter column amount type bigint")
    columns = {**COLUMNS, "amount": {"type": "bigint"}}
    today = replace(loader, pipeline=declare(loader.pipeline.topic, columns=columns))

    assert bring_back(today, reason="out_of_range").passing == 1

    account.send([amount(2, 10**12)])
    today.load()
    assert today.verify().faults == ()
    assert today.query("select count(*) from analytics.orders where amount = 10 ^ 12") == [(2,)]


def test_a_replay_over_a_redrive_and_its_source_leaves_each_record_once(start: Start) -> None:
    account, loader = load_all(start)
    today = change(loader, rules=[])
    bring_back(today, reason="rule")

    today.backfill(ByOffsets((Span(0, 0, 10),)), replace=True)

    assert places(loader) == [(0, 20, "bad_json"), (1, 0, "wrong_type")]
    assert find_faults(loader.db, account) == []
    assert loader.verify().faults == ()
