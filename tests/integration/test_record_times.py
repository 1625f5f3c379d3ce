"""The times of the records in each range, and the time until which each partition is loaded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg

from penstock.backfill.request import ByOffsets, Span
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.ledger.connection import open_ledger
from penstock.ledger.generation import advance_hours, announce_hours, list_whole_hours
from penstock.waiting import wait_until
from privileges import superuser
from producing import order

if TYPE_CHECKING:
    from fix_loaders import Start
    from whole_loads import Loader

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def loaded_until(loader: Loader) -> dict[int, datetime | None]:
    return dict(loader.query("select partition, loaded_until from penstock.position order by 1"))


def test_each_range_keeps_its_first_and_last_time_through_rollback_undo_and_replay(start: Start) -> None:
    account, loader = start(2)
    account.send([order(1), b"not JSON"], partition=0, timestamp=ms(NOON))
    account.send([order(2)], partition=0, timestamp=ms(NOON - HOUR))
    account.send([b"not JSON"], partition=0, timestamp=ms(NOON + HOUR))
    account.send([order(3)], partition=1, timestamp=ms(NOON))
    load = loader.load()

    times = "select partition, first_at, last_at from penstock.{} order by 1, 2"
    expected = [(0, NOON - HOUR, NOON + HOUR), (1, NOON, NOON)]
    assert loader.query(times.format("ranges")) == expected
    assert loader.query(times.format("covered")) == expected
    roll_back(loader.db, load, "ann", "a test")
    undo_rollback(loader.db, load, "ann", "a test")
    assert loader.query(times.format("covered")) == expected

    # The replaced piece has the times of its own records; the rest keeps those of its load as bounds.
    loader.backfill(ByOffsets((Span(0, 0, 2),)), replace=True)
    covered = "select from_offset, until_offset, first_at, last_at from penstock.covered where partition = 0 order by 1"
    assert loader.query(covered) == [(0, 2, NOON, NOON), (2, 4, NOON - HOUR, NOON + HOUR)]


def test_ranges_that_share_a_partition_have_times_of_their_own(start: Start) -> None:
    account, loader = start()
    for hour in range(3):
        account.send([order(hour), b"not JSON"], timestamp=ms(NOON + hour * HOUR))
    roll_back(loader.db, loader.load(), "ann", "a test")
    loader.backfill(ByOffsets((Span(0, 0, 1), Span(0, 3, 5))))
    covered = "select from_offset, until_offset, first_at, last_at from penstock.covered order by 1"
    assert loader.query(covered) == [(0, 1, NOON, NOON), (3, 5, NOON + HOUR, NOON + 2 * HOUR)]


def test_a_partition_is_loaded_until_kafka_was_asked_if_nothing_more_was_there(start: Start) -> None:
    account, loader = start(2, max_records_per_partition=2)
    account.send([order(1), order(2), order(3)], partition=0, timestamp=ms(NOON))
    before = datetime.now(UTC)
    loader.load()
    after = datetime.now(UTC)
    found = loaded_until(loader)
    assert found[0] is None  # the limit left a record, and its timestamp is unknown
    assert found[1] is not None  # it is empty
    assert before < found[1] < after

    loader.load()
    found = loaded_until(loader)
    assert after < (found[0] or NOON) < datetime.now(UTC)
    at_end = datetime.now(UTC)
    assert loader.plan() is None
    assert all(at_end < (each or NOON) for each in loaded_until(loader).values())


def test_a_partition_that_never_catches_up_is_loaded_until_its_log_ended_where_it_is(start: Start) -> None:
    account, loader = start(max_records_per_partition=2)
    account.send([order(1), order(2), order(3)], timestamp=ms(NOON))
    before = datetime.now(UTC)
    loader.load()
    after = datetime.now(UTC)
    for number in range(4, 8, 2):
        account.send([order(number), order(number + 1)], timestamp=ms(NOON))
        loader.load()
        # One record is left each time; the first plan had seen three.
        assert before < (loaded_until(loader)[0] or NOON) < after


def test_an_hour_is_not_whole_while_the_log_holds_a_record_of_it_behind_later_records(start: Start) -> None:
    account, loader = start(max_records_per_partition=2)
    hours = f"select whole from penstock.hours where hour = '{NOON}'"
    for moment in (NOON, NOON + HOUR, NOON + HOUR - timedelta(seconds=1)):
        account.send([order(1)], timestamp=ms(moment))
    loader.load()
    assert loader.query(hours) == []
    loader.load()
    assert loader.query(hours) == [(True,)]


def test_an_open_transaction_keeps_its_partition_from_being_loaded_until_now(start: Start) -> None:
    account, loader = start()
    account.send([order(1)], timestamp=ms(NOON))
    open_transaction = account.begin("open")
    account.leave_open(open_transaction, [order(2)])
    loader.load()
    assert loaded_until(loader) == {0: None}
    assert loader.plan() is None
    assert loaded_until(loader) == {0: None}
    open_transaction.commit_transaction(120)
    committed = datetime.now(UTC)
    assert wait_until(loader.run, seconds=60)  # the broker moves the end a moment after the commit
    assert committed < (loaded_until(loader)[0] or NOON)


def test_an_hour_is_whole_once_every_partition_has_passed_it(start: Start) -> None:
    account, loader = start(2, max_records_per_partition=2)
    hours = "select hour, whole from penstock.hours order by 1"
    account.send([order(1), order(2)], partition=0, timestamp=ms(NOON + HOUR / 2))
    account.send([order(3)], partition=0, timestamp=ms(NOON + 2.5 * HOUR))
    account.send([order(4)], partition=1, timestamp=ms(NOON + HOUR))
    loader.load()
    assert loader.query(hours) == []  # partition 0 has one more record

    before = datetime.now(UTC)
    loader.load()
    found = loader.query(hours)
    assert [hour for hour, _ in found[:3]] == [NOON, NOON + HOUR, NOON + 2 * HOUR]
    assert all(whole for _, whole in found)
    assert before - 2 * HOUR < found[-1][0] <= datetime.now(UTC) - HOUR


def test_no_hour_is_whole_before_each_partition_is_known_to_be_loaded(start: Start) -> None:
    account, loader = start(2)
    account.send([order(1)], partition=0, timestamp=ms(NOON))
    loader.load()
    with psycopg.connect(superuser(loader.db)) as connection:  # as after an upgrade from a ledger without these times
        connection.execute("update penstock.position set loaded_until = null where partition = 1")
        connection.execute("update penstock.generation set hours_from = null, hours_until = null")
        advance_hours(connection, 1)
    assert loader.query("select count(*) from penstock.hours") == [(0,)]
    assert loader.plan() is None
    assert loader.query("select count(*) > 0 from penstock.hours") == [(True,)]


def test_hours_of_a_rolled_back_load_are_not_whole_until_its_gap_is_filled(start: Start) -> None:
    account, loader = start()
    account.send([order(1)], timestamp=ms(NOON))
    loader.load()
    account.send([order(2)], timestamp=ms(NOON + 2 * HOUR))
    roll_back(loader.db, loader.load(), "ann", "a test")
    broken = "select hour from penstock.hours where not whole"
    assert loader.query(broken) == [(NOON + 2 * HOUR,)]
    loader.backfill(ByOffsets((Span(0, 1, 2),)))
    assert loader.query(broken) == []


def test_hours_begin_after_records_that_the_first_load_left_out(start: Start) -> None:
    account, loader = start(start=(NOON + HOUR / 4).isoformat())
    account.send([order(1)], timestamp=ms(NOON))
    account.send([order(2)], timestamp=ms(NOON + HOUR / 2))
    loader.load()
    [(first,)] = loader.query("select min(hour) from penstock.hours")
    assert first == NOON + HOUR


def test_hours_begin_after_records_that_kafka_had_deleted_before_the_first_load(start: Start) -> None:
    account, loader = start(2)
    account.send([order(1), order(2)], partition=0, timestamp=ms(NOON + 2 * HOUR))
    account.send([order(3)], partition=1, timestamp=ms(NOON))
    account.delete_before(1, partition=0)
    loader.load()
    [(first,)] = loader.query("select min(hour) from penstock.hours")
    assert first == NOON + 3 * HOUR


def test_a_run_announces_each_whole_hour_once_and_its_retry_the_same(start: Start) -> None:
    account, loader = start()
    account.send([order(1)], timestamp=ms(NOON))
    loader.load()
    with open_ledger(loader.db) as connection:
        first = announce_hours(connection, "orders", "run 1")
        assert first is not None
        assert first.since == NOON
        assert announce_hours(connection, "orders", "run 1") == first
        assert announce_hours(connection, "orders", "run 2") is None
        hours = list_whole_hours(connection, "orders", first, 3)
        assert hours == [first.until - 3 * HOUR, first.until - 2 * HOUR, first.until - HOUR]
