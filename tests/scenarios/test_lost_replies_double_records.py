"""If the reply to a produce request is lost, the producer sends again, and the log holds the record several times."""

from __future__ import annotations

from collections import Counter
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from fix_kafka import MakeTopic
from loading_process import await_true, query
from penstock.kafka.admin import read_log
from penstock_stack.broker import Broker
from plain_consumer import run_hourly
from producing import HASTY, Account, Sent, order
from proving import find_faults
from proxy import PRODUCE, KafkaProxy
from whole_loads import MakeLoader

COPIES = """
select _key, note, count(*), array_agg(_offset order by _offset) from analytics.orders
group by _key, note having count(*) > 1 order by _key
"""
UNIQUE = {"expect": "expect_business_id_unique", "columns": ["id"], "severity": "warning"}
ONCE = "select distinct on (_key) id from analytics.orders order by _key, _offset"


def produce(bootstrap: str, topic: str, count: int, **settings: Any) -> list[KafkaError | None]:
    """Send orders in one batch, each with a key; return the delivery report of each."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "enable.idempotence": False,
                         **HASTY, **settings})  # fmt: skip
    producer.list_topics(topic, timeout=10)
    reports: list[KafkaError | None] = []

    def note(error: KafkaError | None, _: Message) -> None:
        reports.append(error)

    for number in range(count):
        producer.produce(topic, order(number), key=f"order-{number}", partition=0, on_delivery=note)
    assert producer.flush(30) == 0
    return reports


def test_three_lost_replies_make_four_copies_and_a_query_finds_their_four_offsets(
    db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy, make_loader: MakeLoader
) -> None:
    for acks in ("1", "all"):
        topic = make_topic()
        faulty_network.lose_replies(PRODUCE, 3)
        reports = produce(faulty_network.address, topic, 5, acks=acks, retries=5)
        assert reports == [None] * 5  # every order is acknowledged, once
        assert faulty_network.lost[PRODUCE] == 3
        seen = run_hourly(kafka.bootstrap, topic, "hourly", auto_offset_reset="earliest")
        assert Counter(seen) == dict.fromkeys(range(5), 4), f"acks={acks}"

    account = Account(kafka.bootstrap, topic, [Sent(0, n, order(n % 5), "plain") for n in range(20)])
    loader = make_loader(topic, key="text", checks=[UNIQUE])
    loaded = loader.run()

    assert loaded is not None
    said = loader.observed(loaded.load_id, "expect_business_id_unique")
    assert {name: said[name] for name in ("near_copies", "far_copies", "copies_elsewhere")} == {
        "near_copies": 15, "far_copies": 0, "copies_elsewhere": 0,
    }  # fmt: skip
    # Each copy names the record before it: five offsets earlier, as in a batch of five that was sent again.
    assert [(place["offset"], place["other"]) for place in said["places"]] == [(n, [0, n - 5]) for n in range(5, 15)]
    assert (loaded.rows, loaded.holes) == (20, 0)
    assert find_faults(db, account) == []  # twenty offsets, each once
    copies = query(db, COPIES)
    assert copies == [(f"order-{n}", f"order {n}", 4, [n, n + 5, n + 10, n + 15]) for n in range(5)]
    # A retry keeps the timestamps of its records.
    assert query(db, "select count(distinct _timestamp) from analytics.orders group by _key") == [(1,)] * 5
    assert query(db, f"select id from ({ONCE}) o order by id") == [(n,) for n in range(5)]


def test_acks_0_acknowledges_lost_records_and_the_table_equals_the_log(
    db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy, make_loader: MakeLoader
) -> None:
    topic = make_topic()
    account = Account(kafka.bootstrap, topic, [Sent(0, n, order(n), "plain") for n in range(5)])
    assert produce(faulty_network.address, topic, 5, acks="0") == [None] * 5
    settings = {"bootstrap.servers": kafka.bootstrap}
    # With acks=0 the producer does not wait: a request may still be on its way after the producer has ended.
    await_true(lambda: read_log(settings, topic, "read_committed").partitions[0].end == 5, "the log holds five records")
    faulty_network.lose_requests(PRODUCE, 1)
    assert (
        produce(faulty_network.address, topic, 5, acks="0") == [None] * 5
    )  # reported as delivered, and all five are lost
    await_true(lambda: faulty_network.lost[PRODUCE] == 1, "the second request is lost")

    seen = run_hourly(kafka.bootstrap, topic, "hourly", auto_offset_reset="earliest")
    loaded = make_loader(topic).run()

    assert (len(seen), loaded and loaded.rows) == (5, 5)
    assert find_faults(db, account) == []
