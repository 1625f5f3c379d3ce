"""Logs with new leaders: only a truncated log is a fault. The scenarios truncate one, which needs three brokers."""

from __future__ import annotations

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from declaring import declare
from fix_kafka import MakeTopic
from loading_process import query
from penstock.kafka.admin import read_log
from penstock.kafka.leader_epochs import find_truncations
from penstock.load.plan import plan_load
from penstock.model.ranges import Range
from penstock.waiting import wait_until
from penstock_stack.broker import Broker
from producing import Account, order


def test_a_whole_log_with_a_new_leader_is_loaded_after_its_old_records_are_deleted(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap}
    account = Account(kafka.bootstrap, make_topic(3))
    account.send_orders(10, partition=0)
    account.send_orders(10, partition=1)
    account.transact(map(order, range(5)), commit=False, partition=2)  # ends in records that nobody sees
    # The coordinator answers before the marker of the end is in the partition.
    assert wait_until(lambda: read_log(settings, account.topic, "read_committed").partitions[2].end == 6, seconds=60)
    assert plan_load(db, settings, declare(account.topic, start="latest"), "first").load is None
    before = query(db, "select partition, position, leader_epoch from penstock.position order by 1")
    admin = AdminClient(settings)
    for future in admin.delete_records([TopicPartition(account.topic, 1, 10)]).values():
        future.result(timeout=30)
    kafka.restart()
    account.send_orders(5, partition=0)

    log = read_log(settings, account.topic, "read_committed")
    load = plan_load(db, settings, declare(account.topic, start="latest"), "second").load

    assert [row[:2] for row in before] == [(0, 10), (1, 10), (2, 6)]
    assert all((log.partitions[number].leader_epoch or 0) > epoch for number, _, epoch in before)
    assert find_truncations(settings, account.topic, {number: (at, epoch) for number, at, epoch in before}) == {}
    assert load is not None
    assert load.ranges == (Range(0, 10, 15),)
    assert query(db, "select leader_epoch from penstock.load_range") == [(log.partitions[0].leader_epoch,)]
