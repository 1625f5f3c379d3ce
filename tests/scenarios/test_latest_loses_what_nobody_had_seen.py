"""auto.offset.reset: what it makes of a partition that has no stored offset, and why Penstock does not ask it."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from fix_kafka import MakeTopic, add_partitions
from loading_process import query
from penstock.model.ranges import Range
from penstock_stack.broker import Broker
from plain_consumer import run_hourly
from producing import Account
from proving import find_faults
from whole_loads import MakeLoader


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    return Account(kafka.bootstrap, make_topic(2))


def test_a_first_run_reads_all_nothing_or_stops_by_auto_offset_reset_and_penstock_by_its_own_start(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    account.send_orders(100, partition=0)
    account.send_orders(100, partition=1, first=100)

    assert len(run_hourly(account.bootstrap, account.topic, "all", auto_offset_reset="earliest")) == 200
    assert run_hourly(account.bootstrap, account.topic, "nothing", auto_offset_reset="latest") == []
    with pytest.raises(KafkaException) as stopped:  # what Java calls none
        run_hourly(account.bootstrap, account.topic, "stop", auto_offset_reset="error")
    assert stopped.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET

    loader = make_loader(account.topic)
    loader.client["auto.offset.reset"] = "latest"
    loaded = loader.run()

    assert loaded is not None
    assert (loaded.rows, loaded.ranges) == (200, (Range(0, 0, 100), Range(1, 0, 100)))
    assert find_faults(db, account) == []


def test_a_first_run_at_latest_that_finds_nothing_forgets_where_it_was_and_penstock_writes_it_down(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    account.send_orders(30)
    loader = make_loader(account.topic, start="latest")

    assert run_hourly(account.bootstrap, account.topic, "hourly", auto_offset_reset="latest") == []
    assert loader.run() is None
    account.send_orders(50, first=1000)
    seen = run_hourly(account.bootstrap, account.topic, "hourly", auto_offset_reset="latest")
    loaded = loader.run()

    assert seen == []  # the first run had nothing to commit: the second begins at the end once more
    assert loaded is not None
    assert loaded.rows == 50
    assert query(db, "select min(id), max(id) from analytics.orders") == [(1000, 1049)]


def test_records_in_a_partition_added_between_two_runs_are_lost_by_latest_and_loaded_by_penstock(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    account.send_orders(200)
    loader = make_loader(account.topic)
    loader.run()
    # A group that has read and committed all there is, as one does that has run for months.
    assert len(run_hourly(account.bootstrap, account.topic, "months", auto_offset_reset="earliest")) == 200

    add_partitions(account.bootstrap, account.topic, 3)
    account.send_orders(60, partition=2, first=500)  # before anybody knows of the partition
    account.send_orders(10, partition=0, first=600)
    seen = run_hourly(account.bootstrap, account.topic, "months", auto_offset_reset="latest")
    loaded = loader.run()

    assert seen == list(range(600, 610))  # and a run that ends well
    assert loaded is not None
    assert loaded.rows == 70
    assert Range(2, 0, 60) in loaded.ranges
    assert find_faults(db, account) == []
