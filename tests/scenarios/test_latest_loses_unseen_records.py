"""auto.offset.reset: its effect on a partition without a stored offset, and why Penstock does not use it."""

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


def test_auto_offset_reset_decides_a_plain_first_run_and_start_decides_penstocks(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    account.send_orders(100, partition=0)
    account.send_orders(100, partition=1, first=100)

    assert len(run_hourly(account.bootstrap, account.topic, "all", auto_offset_reset="earliest")) == 200
    assert run_hourly(account.bootstrap, account.topic, "nothing", auto_offset_reset="latest") == []
    with pytest.raises(KafkaException) as stopped:  # Java's name for it is none
        run_hourly(account.bootstrap, account.topic, "stop", auto_offset_reset="error")
    assert stopped.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET

    loader = make_loader(account.topic)
    loader.client["auto.offset.reset"] = "latest"
    loaded = loader.run()

    assert loaded is not None
    assert (loaded.rows, loaded.ranges) == (200, (Range(0, 0, 100), Range(1, 0, 100)))
    assert find_faults(db, account) == []


def test_an_empty_first_run_at_latest_forgets_its_place_and_penstock_stores_it(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    account.send_orders(30)
    loader = make_loader(account.topic, start="latest")

    assert run_hourly(account.bootstrap, account.topic, "hourly", auto_offset_reset="latest") == []
    assert loader.run() is None
    account.send_orders(50, first=1000)
    seen = run_hourly(account.bootstrap, account.topic, "hourly", auto_offset_reset="latest")
    loaded = loader.run()

    assert seen == []  # the first run committed no offset, so the second begins at the end again
    assert loaded is not None
    assert loaded.rows == 50
    assert query(db, "select min(id), max(id) from analytics.orders") == [(1000, 1049)]


def test_records_of_an_added_partition_are_lost_by_latest_and_loaded_by_penstock(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    account.send_orders(200)
    loader = make_loader(account.topic)
    loader.run()
    # A group that has read and committed all records, like a group that has run for months.
    assert len(run_hourly(account.bootstrap, account.topic, "months", auto_offset_reset="earliest")) == 200

    add_partitions(account.bootstrap, account.topic, 3)
    account.send_orders(60, partition=2, first=500)  # before a consumer knows the partition
    account.send_orders(10, partition=0, first=600)
    seen = run_hourly(account.bootstrap, account.topic, "months", auto_offset_reset="latest")
    loaded = loader.run()

    assert seen == list(range(600, 610))  # and the run succeeds
    assert loaded is not None
    assert loaded.rows == 70
    assert Range(2, 0, 60) in loaded.ranges
    assert find_faults(db, account) == []
