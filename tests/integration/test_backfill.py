"""Backfills, replays, rollbacks and their undo, on the real services."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from typing import TYPE_CHECKING

import psycopg
import pytest
from confluent_kafka import Producer

from declaring import COLUMNS, declare
from loading_process import await_blocked
from penstock.backfill.cancel import cancel_backfill
from penstock.backfill.plan import plan_backfill, preview_backfill
from penstock.backfill.request import AllGaps, ByOffsets, ByTime, Request, Span
from penstock.backfill.run import renew_loads, resume_backfill, run_backfill
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.errors import FencedError, PenstockError, WrongUseError
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import fail_load, read_load
from penstock.load.publish import publish_load
from penstock.load.validate import validate_load
from producing import order
from proving import Watcher, find_faults

if TYPE_CHECKING:
    from fix_loaders import Start
    from penstock.model.load import Load


def offsets(*spans: tuple[int, int, int]) -> ByOffsets:
    return ByOffsets(tuple(Span(*span) for span in spans))


def test_a_rollback_leaves_gaps_and_a_backfill_of_all_gaps_loads_the_same_rows(start: Start) -> None:
    account, loader = start(2)
    account.send_orders(60, partition=0)
    account.send_orders(40, partition=1)
    first = loader.load()
    account.send_orders(10, partition=0)
    loader.load()
    before = loader.rows()

    rolled = roll_back(loader.db, first, "ann", "the prices were wrong")

    assert [str(range_) for range_ in rolled.ranges] == ["partition 0 offsets [0, 60)", "partition 1 offsets [0, 40)"]
    assert loader.gaps() == [(0, 0, 60), (1, 0, 40)]
    assert [row[:2] for row in loader.rows()] == [(0, offset) for offset in range(60, 70)]
    assert loader.query("select actor, what, why from penstock.event order by event_id desc limit 1") == [
        ("ann", "rolled_back", "the prices were wrong")
    ]
    loads = loader.backfill(AllGaps(), per_load=30)
    assert len(loads) == 4
    assert loader.gaps() == []
    assert loader.rows() == before
    assert find_faults(loader.db, account) == []


def test_the_undo_of_a_rollback_restores_the_load_even_after_a_column_was_added(start: Start) -> None:
    account, loader = start()
    account.send_orders(20)
    first = loader.load()
    before = loader.rows()
    roll_back(loader.db, first, "ann", "a mistake")
    loader.pipeline = declare(account.topic, columns={**COLUMNS, "city": {"type": "text"}})
    account.send_orders(5)
    loader.load()

    undone = undo_rollback(loader.db, first, "ann", "it was right")

    assert (undone.load.state, loader.gaps()) == ("published", [])
    assert [row[:4] for row in loader.rows()][:20] == [row[:4] for row in before]
    assert find_faults(loader.db, account) == []
    assert "is published already" in undo_rollback(loader.db, first, "ann", "again").message
    assert loader.query("select count(*) from pg_class where relnamespace = 'penstock_kept'::regnamespace") == [(0,)]


def test_a_rollback_whose_offsets_were_loaded_again_cannot_be_undone(start: Start) -> None:
    account, loader = start()
    account.send_orders(20)
    first = loader.load()
    roll_back(loader.db, first, "ann", "a mistake")
    assert "is rolled back already" in roll_back(loader.db, first, "ann", "again").message
    loader.backfill(offsets((0, 5, 10)))

    with pytest.raises(FencedError, match="have loaded some of its offsets again"):
        undo_rollback(loader.db, first, "ann", "it was right")

    assert loader.state(first) == "rolled_back"
    assert len(loader.rows()) == 5


def test_a_replay_of_a_part_of_a_load_keeps_the_rest_and_the_rows_are_the_same(start: Start) -> None:
    account, loader = start(2)
    account.send([order(1), b"broken", *map(order, range(2, 40))], partition=0)
    account.transact([order(number) for number in range(40, 60)], commit=False, partition=1)
    account.send_orders(30, partition=1)
    first = loader.load()
    before = loader.rows()
    quarantined = loader.query('select partition, "offset", reason from penstock.quarantined')

    [again] = loader.backfill(offsets((0, 0, 10), (1, 5, 45)), replace=True)

    assert loader.rows() == before
    assert loader.query('select partition, "offset", reason from penstock.quarantined') == quarantined
    assert [part[:3] for part in loader.covered() if part[3] == again] == [(0, 0, 10), (1, 5, 45)]
    assert [part[:3] for part in loader.covered() if part[3] == first] == [(0, 10, 40), (1, 0, 5), (1, 45, 51)]
    assert loader.query("select distinct _load_id from analytics.orders where _partition = 0 and _offset < 10") == [
        (again,)
    ]
    assert (loader.state(first), loader.gaps()) == ("published", [])
    assert find_faults(loader.db, account) == []
    roll_back(loader.db, first, "ann", "only what it still holds")
    assert loader.gaps() == [(0, 10, 40), (1, 0, 5), (1, 45, 51)]


def test_a_load_whose_rows_are_all_replaced_is_superseded(start: Start) -> None:
    account, loader = start()
    account.send_orders(20)
    first = loader.load()
    before = loader.rows()

    [again] = loader.backfill(offsets((0, 0, 20)), replace=True)

    assert loader.rows() == before
    assert loader.query(f"select state, superseded_by from penstock.loads where load_id = {first}") == [
        ("superseded", again)
    ]
    with pytest.raises(WrongUseError, match="Only a published load can be rolled back"):
        roll_back(loader.db, first, "ann", "too late")


def test_readers_of_a_replay_see_the_old_rows_or_the_new_ones_and_never_fewer(start: Start) -> None:
    account, loader = start()
    account.send_orders(500)
    loader.load()
    planned = loader.plan_backfill(offsets((0, 100, 400)), replace=True, per_load=100)
    with Watcher(loader.db) as watcher:
        for load_id in planned.load_ids:
            loader.finish(load_id)
            with psycopg.connect(loader.db) as connection:
                assert connection.execute("select count(*) from analytics.orders").fetchone() == (500,)
    assert watcher.snapshots > 0


def test_offsets_that_start_latest_skipped_can_be_loaded_later(start: Start) -> None:
    account, loader = start(start="latest")
    account.send_orders(30)
    with pytest.raises(WrongUseError, match="has loaded nothing yet"):
        loader.plan_backfill(AllGaps())
    with pytest.raises(AssertionError, match="there are no new records"):
        loader.load()
    account.send_orders(5)
    loader.load()

    loader.backfill(AllGaps())

    assert len(loader.rows()) == 35
    assert find_faults(loader.db, account) == []


def test_a_refused_backfill_writes_nothing_and_a_dry_run_neither(start: Start) -> None:
    account, loader = start()
    account.send_orders(20)
    loader.load()
    request = Request(offsets((0, 5, 10)), "tester", replace=True, offsets_per_load=2)

    draft = preview_backfill(loader.db, loader.settings.kafka, loader.pipeline, request)
    with pytest.raises(WrongUseError, match="load 1 has published it") as refused:
        loader.plan_backfill(offsets((0, 5, 10)))

    assert [sum(map(len, load)) for load in draft.loads] == [2, 2, 1]
    assert draft.seconds is not None
    assert refused.value.exit_code == 2
    assert loader.query("select count(*) from penstock.backfill") == [(0,)]
    assert loader.query("select count(*) from penstock.load") == [(1,)]


def test_a_backfill_of_more_loads_than_the_scheduler_takes_writes_nothing(start: Start) -> None:
    account, loader = start()
    account.send_orders(50)
    roll_back(loader.db, loader.load(), "ann", "a mistake")
    kafka = {"bootstrap.servers": loader.bootstrap}
    request = Request(AllGaps(), "ann", offsets_per_load=2, most_loads=4)
    before = loader.query("select (select count(*) from penstock.load), (select count(*) from penstock.backfill)")

    with pytest.raises(WrongUseError, match="would be 25 loads, and Airflow maps at most 4 tasks") as refused:
        plan_backfill(loader.db, kafka, loader.pipeline, request, "many")

    assert "`records_per_load` of 13 or more" in refused.value.next_step
    assert (
        loader.query("select (select count(*) from penstock.load), (select count(*) from penstock.backfill)") == before
    )
    planned = plan_backfill(loader.db, kafka, loader.pipeline, replace(request, offsets_per_load=13), "few")
    assert planned.backfill_id is not None
    assert len(planned.load_ids) == 4
    with pytest.raises(WrongUseError, match=r"4 loads of backfill .* are unfinished, .* at most 3") as refused:
        resume_backfill(loader.db, loader.pipeline, planned.backfill_id, 3)
    assert refused.value.next_step == f"`penstock backfill {loader.pipeline.name} --resume {planned.backfill_id}`"
    assert len(resume_backfill(loader.db, loader.pipeline, planned.backfill_id, 4)) == 4


def test_a_backfill_planned_again_by_the_same_run_is_the_same(start: Start) -> None:
    account, loader = start()
    account.send_orders(20)
    roll_back(loader.db, loader.load(), "ann", "why not")

    first = loader.plan_backfill(AllGaps(), per_load=5, run="run")
    again = loader.plan_backfill(AllGaps(), per_load=7, run="run")

    assert (again.backfill_id, again.load_ids) == (first.backfill_id, first.load_ids)
    assert len(first.load_ids) == 4


def test_a_backfill_and_a_live_load_run_at_the_same_time(start: Start) -> None:
    account, loader = start(2)
    account.send_orders(100, partition=0)
    roll_back(loader.db, loader.load(), "ann", "why not")
    planned = loader.plan_backfill(AllGaps())
    [load_id] = planned.load_ids
    loader.stage(load_id)
    account.send_orders(50, partition=1)
    loader.load()

    publish_load(loader.db, loader.settings.kafka, load_id)

    assert find_faults(loader.db, account) == []


def test_two_loads_of_the_same_offsets_end_with_one_publish_and_one_clear_error(start: Start) -> None:
    account, loader = start()
    account.send_orders(30)
    roll_back(loader.db, loader.load(), "ann", "why not")
    first = loader.plan_backfill(offsets((0, 0, 20))).load_ids[0]
    with pytest.raises(WrongUseError, match=f"load {first} of backfill 1 is about to load it"):
        loader.plan_backfill(offsets((0, 10, 30)))
    # The first load is hidden from the plan of the second, so only the constraint of the ledger refuses the overlap.
    with psycopg.connect(loader.db) as connection:
        connection.execute("update penstock.load set state = 'discarded' where load_id = %s", [first])
    second = loader.plan_backfill(offsets((0, 10, 30))).load_ids[0]
    with psycopg.connect(loader.db) as connection:
        connection.execute("update penstock.load set state = 'planned' where load_id = %s", [first])
    loader.stage(first)
    loader.stage(second)

    publish_load(loader.db, loader.settings.kafka, first)
    with pytest.raises(FencedError, match="offsets of this load are published already"):
        publish_load(loader.db, loader.settings.kafka, second)

    assert [row[1] for row in loader.rows()] == list(range(20))


def test_gaps_of_an_interrupted_backfill_are_named_with_the_command_to_resume(start: Start) -> None:
    account, loader = start()
    account.send_orders(30)
    roll_back(loader.db, loader.load(), "ann", "why not")
    loader.plan_backfill(offsets((0, 0, 20)))
    request = Request(AllGaps(), "tester")

    draft = preview_backfill(loader.db, loader.settings.kafka, loader.pipeline, request)
    assert [str(held.range) for held in draft.choice.planned] == ["partition 0 offsets [0, 20)"]
    loader.backfill(AllGaps())
    with pytest.raises(FencedError, match=r"(?s)offsets \[0, 20\) by load 2 of backfill 1.*orders --resume 1`"):
        loader.plan_backfill(AllGaps())

    assert [row[1] for row in loader.rows()] == list(range(20, 30))


def test_a_second_process_for_the_same_backfill_is_refused(start: Start) -> None:
    account, loader = start()
    account.send_orders(5)
    roll_back(loader.db, loader.load(), "ann", "why not")
    backfill_id = loader.plan_backfill(AllGaps()).backfill_id
    assert backfill_id is not None
    messages: list[str] = []
    with psycopg.connect(loader.db) as other:
        other.execute("select pg_advisory_lock(hashtextextended('penstock backfill ' || %s, 0))", [backfill_id])
        with pytest.raises(FencedError, match=f"another process runs backfill {backfill_id}"):
            run_backfill(loader.settings, loader.pipeline, backfill_id, 1, messages.append, StringIO())

    run_backfill(loader.settings, loader.pipeline, backfill_id, 1, messages.append, StringIO())
    messages.clear()
    run_backfill(loader.settings, loader.pipeline, backfill_id, 1, messages.append, StringIO())
    assert [line.split(",")[0] for line in messages] == [f"backfill {backfill_id} has ended: 1 of 1 loads"]


def test_a_validation_of_a_load_that_was_published_meanwhile_passes(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, loader = start()
    account.send_orders(5)
    load = loader.plan()
    assert load is not None
    from penstock.quality import suite

    check = suite.check_load

    def check_too_late(db: str, staged: Load, checker: str | None) -> suite.Checked:
        monkeypatch.setattr(suite, "check_load", check)
        assert validate_load(db, staged.load_id).passed
        publish_load(db, loader.settings.kafka, staged.load_id)
        return check(db, staged, checker)

    loader.stage_rows(load.load_id)
    monkeypatch.setattr(suite, "check_load", check_too_late)
    verdict = validate_load(loader.db, load.load_id)

    assert (verdict.passed, verdict.load.state) == (True, "published")


def test_a_time_means_the_first_record_not_older_for_any_order_of_timestamps(start: Start) -> None:
    account, loader = start(2)
    day = int(datetime(2026, 1, 31, tzinfo=UTC).timestamp() * 1000)
    producer = Producer({"bootstrap.servers": account.bootstrap})
    for hour in (1, 5, 3, 6, 2, 9):
        producer.produce(account.topic, order(hour), partition=0, timestamp=day + hour * 3_600_000)
    producer.produce(account.topic, order(1), partition=1, timestamp=day)
    assert producer.flush(30) == 0
    roll_back(loader.db, loader.load(), "ann", "why not")

    loader.backfill(ByTime(datetime(2026, 1, 31, 4, tzinfo=UTC), datetime(2026, 1, 31, 6, tzinfo=UTC)))

    # From the first record at 04:00 or later up to the first at 06:00 or later; partition 1 has only an older record.
    assert [row[:2] for row in loader.rows()] == [(0, 1), (0, 2)]


def test_a_long_reader_delays_a_rollback_and_no_other_reader(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.target.postgres.locks.TRY_SECONDS", 10)
    account, loader = start()
    account.send_orders(20)
    first = loader.load()
    with psycopg.connect(loader.db) as reader, ThreadPoolExecutor(1) as pool:
        reader.execute("select count(*) from analytics.orders")
        rolling = pool.submit(roll_back, loader.db, first, "ann", "why not")
        await_blocked(loader.db)
        with psycopg.connect(loader.db) as other:
            other.execute("set lock_timeout = '2s'")
            assert other.execute("select count(*) from analytics.orders").fetchone() == (20,)
        with pytest.raises(PenstockError, match="was in use for 10 s"):
            rolling.result(60)
    assert (loader.state(first), len(loader.rows())) == ("published", 20)
    roll_back(loader.db, first, "ann", "now it goes")
    assert loader.rows() == []


def test_a_failed_load_of_a_backfill_is_planned_again_by_the_declaration_of_today(start: Start) -> None:
    account, loader = start()
    account.send_orders(20)
    roll_back(loader.db, loader.load(), "ann", "why not")
    planned = loader.plan_backfill(AllGaps(), per_load=5)
    done, failed, *left = planned.load_ids
    loader.finish(done)
    with open_ledger(loader.db) as connection:
        fail_load(connection, read_load(connection, failed), "poison")
    loader.pipeline = declare(account.topic, max_quarantined=5)
    assert planned.backfill_id is not None

    with open_ledger(loader.db) as connection:
        renewed = renew_loads(connection, loader.pipeline, planned.backfill_id)
    for load_id in renewed:
        loader.finish(load_id)

    assert renewed[1:] == left or renewed[:-1] == left
    assert loader.state(failed) == "superseded"
    assert loader.query("select loads, loads_done, loads_stopped, offsets, offsets_done from penstock.backfills") == [
        (4, 4, 0, 20, 20)
    ]
    assert find_faults(loader.db, account) == []


def test_a_cancelled_backfill_keeps_what_is_published_and_frees_the_rest(start: Start) -> None:
    account, loader = start(1)
    account.send_orders(30)
    roll_back(loader.db, loader.load(), "ann", "a test")
    planned = loader.plan_backfill(AllGaps(), per_load=10)
    backfill_id, (first, second, third) = planned.backfill_id, planned.load_ids
    assert backfill_id is not None
    loader.finish(first)
    loader.stage(second)
    with open_ledger(loader.db) as connection:
        fail_load(connection, read_load(connection, third), "a cause")
        connection.commit()
    with pytest.raises(WrongUseError, match="there is no backfill"):
        cancel_backfill(loader.db, backfill_id, "ann", "the wrong range", "another")

    cancelled = cancel_backfill(loader.db, backfill_id, "ann", "the wrong range", "orders")

    assert cancelled.loads == (second, third)
    with pytest.raises(PenstockError):
        publish_load(loader.db, loader.settings.kafka, second)
    assert loader.gaps() == [(0, 10, 30)]
    assert loader.query("select load_id, actor, why from penstock.event where what = 'discarded' order by 1") == [
        (second, "ann", "the wrong range"),
        (third, "ann", "the wrong range"),
    ]
    with open_ledger(loader.db) as connection:
        assert renew_loads(connection, loader.pipeline, backfill_id) == []
    loader.backfill(AllGaps())
    assert loader.gaps() == []
    assert cancel_backfill(loader.db, backfill_id, "ann", "again").loads == ()
