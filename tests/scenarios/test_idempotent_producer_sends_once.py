"""The replies of `test_lost_replies_double_records.py` are lost, but the broker recognizes the producer's copies."""

from __future__ import annotations

from confluent_kafka import Producer

from fix_kafka import MakeTopic
from loading_process import query
from penstock_stack.broker import Broker
from plain_consumer import run_hourly
from producing import HASTY, Account, Sent, order
from proving import find_faults
from proxy import PRODUCE, KafkaProxy
from whole_loads import MakeLoader


def test_three_lost_replies_make_no_copy_if_the_producer_is_idempotent(
    db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy, make_loader: MakeLoader
) -> None:
    account = Account(kafka.bootstrap, make_topic(), [Sent(0, n, order(n), "plain") for n in range(5)])
    producer = Producer(
        {"bootstrap.servers": faulty_network.address, "linger.ms": 50, "enable.idempotence": True, **HASTY}
    )
    producer.list_topics(account.topic, timeout=10)
    faulty_network.lose_replies(PRODUCE, 3)
    reports: list[object] = []
    for number in range(5):
        producer.produce(
            account.topic, order(number), key=f"order-{number}", partition=0,
            on_delivery=lambda error, _: reports.append(error),
        )  # fmt: skip
    assert producer.flush(30) == 0

    seen = run_hourly(kafka.bootstrap, account.topic, "hourly", auto_offset_reset="earliest")
    unique = {"expect": "expect_business_id_unique", "columns": ["id"]}
    loaded = make_loader(account.topic, key="text", checks=[unique]).run()

    assert (reports, faulty_network.lost[PRODUCE]) == ([None] * 5, 3)  # sent four times, like the others
    assert seen == list(range(5))
    assert loaded is not None
    assert loaded.rows == 5
    assert query(db, "select _key, id from analytics.orders order by _offset") == [(f"order-{n}", n) for n in range(5)]
    assert find_faults(db, account) == []
