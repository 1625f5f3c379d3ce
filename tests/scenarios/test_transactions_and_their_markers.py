"""Transactions that are committed, aborted or open: their offsets, the end of the log, and the loaded records."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition

from fix_kafka import MakeTopic
from loading_process import query
from penstock.holes.examination import name_holes
from penstock.kafka.admin import read_log
from penstock.model.log import Isolation, PartitionLog
from penstock.model.ranges import Range
from penstock_stack.broker import Broker
from plain_consumer import open_consumer, read_ids, read_to_end
from producing import Account, order
from proving import Watcher, find_faults
from whole_loads import MakeLoader

# The default of Java's consumer, and so of Spark's Kafka source
UNCOMMITTED: Isolation = "read_uncommitted"


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    """Ten committed records and their marker [0, 11), five aborted and theirs [11, 17), four plain [17, 21)."""
    account = Account(kafka.bootstrap, make_topic())
    account.transact(map(order, range(10)), commit=True, name="a")
    account.transact(map(order, range(100, 105)), commit=False, name="b")
    account.send_orders(4, first=200)
    return account


def test_committed_records_are_loaded_and_records_in_flight_after_their_commit(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    in_flight = account.begin("c")
    account.leave_open(in_flight, map(order, range(300, 303)))  # [21, 24)
    account.send_orders(2, first=400)  # [24, 26): committed, and behind an open transaction
    loader = make_loader(account.topic)

    assert read_ends(account) == {"read_committed": 21, UNCOMMITTED: 26}
    assert len(read_plainly(account, UNCOMMITTED)) == 24  # five aborted ones, three undecided ones
    assert len(read_plainly(account, "read_committed")) == 14

    with Watcher(db):
        first = loader.run()
        account.settle(in_flight, "c", commit=True)
        assert read_ends(account) == {"read_committed": 27, UNCOMMITTED: 27}  # its marker took offset 26
        second = loader.run()

    assert first is not None
    assert (first.ranges, first.rows, first.holes) == ((Range(0, 0, 21),), 14, 7)  # five aborted, two markers
    assert second is not None
    assert (second.ranges, second.rows, second.holes) == ((Range(0, 21, 27),), 5, 1)
    assert find_faults(db, account) == []
    named = name_holes(db, loader.settings.kafka, loader.pipeline)
    assert (named.counts["aborted"], named.counts["marker"], named.unexplained) == (5, 3, ())


def test_an_open_transaction_that_aborts_is_never_loaded_but_a_plain_consumer_used_it(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    in_flight = account.begin("c")
    account.leave_open(in_flight, map(order, range(300, 303)))
    loader = make_loader(account.topic)
    used = read_plainly(account, UNCOMMITTED)
    loader.run()
    account.settle(in_flight, "c", commit=False)
    loaded = loader.run()

    assert [id_ for id_ in used if id_ >= 300] == [300, 301, 302]
    assert loaded is not None
    assert (loaded.ranges, loaded.rows, loaded.holes) == ((Range(0, 21, 25),), 0, 4)
    assert query(db, "select count(*) from analytics.orders where id >= 300") == [(0,)]
    assert find_faults(db, account) == []


def test_a_count_by_offsets_is_wrong_and_the_record_before_the_end_never_comes(account: Account) -> None:
    """A load commits its planned end and not the highest offset it has seen; this test shows the reason."""
    account.transact(map(order, range(500, 502)), commit=True, name="d")  # [21, 23), and a marker at 23
    consumer = open_consumer(account.bootstrap, "ends", isolation_level="read_committed")
    consumer.assign([TopicPartition(account.topic, 0, 0)])
    offsets = [message.offset() for message in read_to_end(consumer)]
    start, end = consumer.get_watermark_offsets(TopicPartition(account.topic, 0), timeout=10)
    consumer.close()

    assert (end - start, len(offsets)) == (24, 16)
    assert max(offsets) == 22  # a consumer that waits for offset 23, the last before the end, waits for ever
    assert read_log({"bootstrap.servers": account.bootstrap}, account.topic, "read_committed").partitions == {
        0: PartitionLog(0, 24)
    }


def read_plainly(account: Account, isolation: str) -> list[int]:
    """Read from the start with a consumer of its own group."""
    consumer = open_consumer(account.bootstrap, f"see {isolation}", isolation_level=isolation)
    try:
        consumer.assign([TopicPartition(account.topic, 0, 0)])
        return read_ids(read_to_end(consumer))
    finally:
        consumer.close()


def read_ends(account: Account) -> dict[str, int]:
    """The end of the partition at both isolation levels."""
    settings = {"bootstrap.servers": account.bootstrap}
    return {
        "read_committed": read_log(settings, account.topic, "read_committed").partitions[0].end,
        UNCOMMITTED: read_log(settings, account.topic, UNCOMMITTED).partitions[0].end,
    }
