"""The status of pipelines that share a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from declaring import declare
from penstock.ledger.connection import open_ledger
from penstock.status.pipelines import read_status
from producing import Account, order

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker


@pytest.mark.parametrize("committed_first", [True, False])
def test_pipelines_of_one_topic_and_two_isolations_each_have_their_own_lag(
    db: str, kafka: Broker, make_topic: MakeTopic, *, committed_first: bool
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(4)
    producer = account.begin("open")
    account.leave_open(producer, [order(100)])
    account.send_orders(4)
    pipelines = [
        declare(account.topic, name="settled"),
        declare(account.topic, name="all_of_it", isolation="read_uncommitted"),
    ]

    with open_ledger(db) as connection:
        found = read_status(
            connection, {"bootstrap.servers": kafka.bootstrap}, pipelines if committed_first else pipelines[::-1]
        )
    producer.abort_transaction(30)

    assert {status.name: status.partitions[0].lag for status in found} == {"settled": 4, "all_of_it": 9}
