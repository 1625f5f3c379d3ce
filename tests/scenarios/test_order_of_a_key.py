"""The order of records: within a partition, of a key in one partition, and after partitions were added."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Message, Producer, TopicPartition

from declaring import COLUMNS
from fix_kafka import MakeTopic, add_partitions
from loading_process import query
from penstock_stack.broker import Broker
from plain_consumer import open_consumer, read_to_end
from producing import Account, Sent
from proving import find_faults
from whole_loads import MakeLoader

KEYS = [f"customer-{number}" for number in range(100)]
NOON = 1_767_268_800_000  # of 1 January 2026
VERSIONED: dict[str, Any] = {"columns": COLUMNS | {"version": {"type": "integer", "path": "$.version"}}, "key": "text"}
ORDERED = {"expect": "expect_key_order_within_partition", "key": "_key", "order_by": "version", "severity": "warning"}
IN_ONE = {"expect": "expect_key_in_one_partition", "key": "_key", "across": "30d", "severity": "warning"}
CLOCK = {"expect": "expect_record_time_near", "max_disorder": "1s", "severity": "warning"}
# Offsets order the versions of a key within each partition …
INVERSIONS = """
select count(*) from (
    select version < lag(version) over (partition by _key, _partition order by _offset) as inverted
    from analytics.orders) o where inverted
"""
MOVED = "select count(*) from (select _key from analytics.orders group by _key having count(distinct _partition) > 1) o"
# … and across partitions only the timestamps do, which are the producers'.
NEWEST_BY_TIMESTAMP = """
select count(*) filter (where version = 4) from (
    select distinct on (_key) version from analytics.orders order by _key, _timestamp desc, _partition, _offset desc) o
"""
NEWEST_BY_OFFSET = NEWEST_BY_TIMESTAMP.replace("_timestamp desc, _partition, _offset desc", "_offset desc")


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    return Account(kafka.bootstrap, make_topic(2))


def send_versions(account: Account, versions: Iterable[int], partitioner: str = "murmur2_random") -> dict[str, int]:
    """Send every key in each version, a second apart; return the partition of each key."""
    producer = Producer({"bootstrap.servers": account.bootstrap, "partitioner": partitioner, "linger.ms": 5})
    went: dict[str, int] = {}

    def note(error: object, message: Message) -> None:
        assert error is None
        went[message.key().decode()] = message.partition()
        account.sent.append(Sent(message.partition(), message.offset(), message.value(), "plain"))

    for version in versions:
        for number, key in enumerate(KEYS):
            value = json.dumps({"id": number, "note": key, "version": version})
            producer.produce(account.topic, value, key=key, timestamp=NOON + 1000 * version, on_delivery=note)
    assert producer.flush(30) == 0
    return went


def read_partitions(account: Account, partitions: Iterable[int]) -> list[Message]:
    """Read these partitions, like one member of a group."""
    consumer = open_consumer(account.bootstrap, "members")
    try:
        consumer.assign([TopicPartition(account.topic, partition, 0) for partition in partitions])
        return read_to_end(consumer)
    finally:
        consumer.close()


def keep_last(messages: Iterable[Message]) -> dict[str, int]:
    """A table that keeps the last arrival of each key, like `insert … on conflict do update`."""
    return {message.key().decode(): json.loads(message.value())["version"] for message in messages}


def test_added_partitions_break_the_order_of_moved_keys_and_the_table_keeps_it(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    loader = make_loader(account.topic, checks=[ORDERED | {"across": "30d"}, IN_ONE], **VERSIONED)
    before = send_versions(account, (1, 2))
    first = loader.load()
    add_partitions(account.bootstrap, account.topic, 4)
    after = send_versions(account, (3, 4))
    second = loader.load()

    moved = [key for key in KEYS if before[key] != after[key]]
    # Two members of a group; the one with the new partitions is ahead of the one with the old ones.
    kept = keep_last([*read_partitions(account, (2, 3)), *read_partitions(account, (0, 1))])
    stale = [key for key in KEYS if kept[key] != 4]

    assert {after[key] for key in moved} == {2, 3}
    assert (len(moved), stale) == (47, moved)
    assert loader.observed(first, IN_ONE["expect"]) == {"keys_moved": 0, "partitions": 0}
    said = loader.observed(second, IN_ONE["expect"])
    assert (said["keys_moved"], said["partitions"], said["added_partitions"]) == (47, 2, [2, 3])
    assert loader.observed(second, ORDERED["expect"]) == {"late": 0, "partitions": 0}
    assert query(db, INVERSIONS) == [(0,)]
    assert query(db, MOVED) == [(len(moved),)]
    assert query(db, NEWEST_BY_TIMESTAMP) == [(100,)]
    assert query(db, NEWEST_BY_OFFSET) == [(53,)]
    assert find_faults(db, account) == []


def test_two_clients_send_keys_to_different_partitions_unless_configured_alike(account: Account) -> None:
    add_partitions(account.bootstrap, account.topic, 4)
    java = send_versions(account, [1], "murmur2_random")  # like Java's clients
    default = send_versions(account, [2], "consistent_random")  # librdkafka's own default

    assert sum(java[key] != default[key] for key in KEYS) == 81


def test_offsets_give_the_order_within_a_partition_even_with_wrong_timestamps(
    db: str, account: Account, make_loader: MakeLoader
) -> None:
    """With a clock that was set back, the newest version by timestamp is the wrong one."""
    for version, timestamp in ((1, NOON), (2, NOON + 1000), (3, NOON - 5000)):
        value = json.dumps({"id": version, "note": "clock", "version": version}).encode()
        account.send([value], partition=0, key=b"clock", timestamp=timestamp)
    loader = make_loader(account.topic, checks=[ORDERED, CLOCK], **VERSIONED)
    load_id = loader.load()

    assert loader.observed(load_id, ORDERED["expect"]) == {"late": 0, "partitions": 0}
    said = loader.observed(load_id, CLOCK["expect"], partition=0)
    assert (said["disordered"], said["worst_disorder_seconds"]) == (1, 6)
    assert [(place["partition"], place["offset"]) for place in said["places"]] == [(0, 2)]
    offsets = [row[0] for row in query(db, "select _offset from analytics.orders order by version")]
    assert all(earlier < later for earlier, later in pairwise(offsets))
    assert query(db, "select version from analytics.orders order by _offset desc limit 1") == [(3,)]
    assert query(db, "select version from analytics.orders order by _timestamp desc limit 1") == [(2,)]
