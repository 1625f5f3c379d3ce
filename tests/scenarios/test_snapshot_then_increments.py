"""A table is loaded completely, then every hour, while producers never stop: no record is lost or doubled between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import TopicPartition

from fix_kafka import MakeTopic
from loading_process import await_true, query
from penstock_stack.broker import Broker
from plain_consumer import open_consumer, read_ids, read_to_end
from producing import Account, order
from proving import Watcher, find_faults
from whole_loads import MakeLoader

HOUR = 3_600_000
NOON = 1_767_268_800_000  # of 1 January 2026


def test_plain_increments_after_a_snapshot_lose_by_latest_and_lose_and_double_by_the_hour(
    db: str, kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    send_at(account, range(100), NOON - 1000)
    # The snapshot begins at noon. These records arrive while it is read …
    send_at(account, range(100, 120), NOON + 1000)
    snapshot = read_from(account, 0)
    # … and these after it was read, while it is written; ten of them from a producer whose clock is an hour late.
    send_at(account, range(120, 150), NOON + 2000)
    send_at(account, range(150, 160), NOON + 3000 - HOUR)
    loader = make_loader(account.topic)
    whole = loader.run()

    latest = open_consumer(kafka.bootstrap, "latest", auto_offset_reset="latest")
    latest.assign([TopicPartition(account.topic, 0)])
    assert read_to_end(latest) == []
    send_at(account, range(160, 200), NOON + 4000)
    by_latest = snapshot + read_ids(read_to_end(latest))
    latest.close()
    by_time = snapshot + read_hour(account, NOON)
    rest = loader.run()

    sent = set(range(200))
    assert (len(by_latest), len(sent - set(by_latest))) == (160, 40)  # 40 lost: written before the consumer started
    # 20 doubled: they arrived while the snapshot was read. 10 lost: their timestamps are in the hour before.
    assert (len(by_time), len(set(by_time)), sent - set(by_time)) == (210, 190, set(range(150, 160)))
    assert whole is not None
    assert rest is not None
    assert (whole.rows, rest.rows) == (160, 40)
    assert query(db, "select count(*), count(distinct id), sum(id)::int from analytics.orders") == [(200, 200, 19900)]
    assert find_faults(db, account) == []


def test_loads_while_producers_continue_hold_every_record_once(
    db: str, kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader
) -> None:
    account = Account(kafka.bootstrap, make_topic(3))
    account.send_orders(20_000)
    loader = make_loader(account.topic)

    with Watcher(db):
        with producing(account, first=20_000):
            loads = [loader.run()]
            for _ in range(3):
                before = len(account.sent)
                await_true(lambda n=before: len(account.sent) > n + 500, "the producers have sent 500 more")  # type: ignore[misc]
                loads.append(loader.run())
        loads.append(loader.run())

    published = [load.rows or 0 for load in loads if load is not None]
    assert published[0] >= 20_000
    assert len(published) >= 4
    assert sum(published) == len(account.sent)
    held = query(db, "select count(*), count(distinct (_partition, _offset)), sum(id)::bigint from analytics.orders")
    assert held == [(len(account.sent), len(account.sent), sum(range(len(account.sent))))]
    assert query(db, "select * from penstock.gaps") == []
    assert find_faults(db, account) == []


@contextmanager
def producing(account: Account, first: int) -> Iterator[None]:
    """Produce orders with rising numbers while the block runs."""
    done = threading.Event()
    errors: list[BaseException] = []

    def produce() -> None:
        number = first
        try:
            while not done.wait(0.02):
                account.send_orders(100, first=number)
                number += 100
        except BaseException as error:  # raised again below, in the thread of the test
            errors.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(60)
    assert not errors, errors


def send_at(account: Account, numbers: range, timestamp: int) -> None:
    """Send orders with this timestamp, as a producer's clock gives it."""
    account.send(map(order, numbers), partition=0, timestamp=timestamp)


def read_from(account: Account, offset: int) -> list[int]:
    """Read from an offset to the end."""
    consumer = open_consumer(account.bootstrap, "from")
    try:
        consumer.assign([TopicPartition(account.topic, 0, offset)])
        return read_ids(read_to_end(consumer))
    finally:
        consumer.close()


def read_hour(account: Account, start: int) -> list[int]:
    """Read the records whose timestamps are in one hour, as an hourly job without offsets does."""
    consumer = open_consumer(account.bootstrap, "hour")
    try:
        consumer.assign(consumer.offsets_for_times([TopicPartition(account.topic, 0, start)], timeout=10))
        records = read_to_end(consumer)
        return read_ids(record for record in records if start <= record.timestamp()[1] < start + HOUR)
    finally:
        consumer.close()
