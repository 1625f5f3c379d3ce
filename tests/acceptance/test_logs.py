"""Contents of logs over several loads: transactions of every outcome, only holes, partitions that are added later."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewPartitions

from declaring import write_declaration
from fix_kafka import MakeTopic, await_partitions
from loading_process import LoadingProcess, query
from penstock_stack.broker import Broker
from producing import Account, order
from proving import Watcher, find_faults


def test_transactions_of_every_outcome_and_new_partitions_over_several_loads_are_exact(
    db: str, kafka: Broker, make_topic: MakeTopic, environment: dict[str, str], tmp_path: Path
) -> None:
    account = Account(kafka.bootstrap, make_topic(2))
    write_declaration(tmp_path, account.topic)

    def load() -> dict[str, object]:
        code, document, stderr = LoadingProcess(environment, "orders").finish()
        assert code == 0, stderr
        return document

    with Watcher(db):
        account.send_orders(100)
        account.transact(map(order, range(100, 200)), commit=False, name="a")
        account.transact(map(order, range(200, 300)), commit=True, name="b")
        late = account.begin("late")
        account.leave_open(late, map(order, range(300, 340)), partition=0)
        account.send_orders(50, partition=0, first=400)  # behind the open transaction: not stable yet
        account.send_orders(50, partition=1, first=450)
        load()
        held_back = query(db, "select count(*) from analytics.orders where id between 300 and 449")[0][0]
        assert held_back == 0, "records of an open transaction, or behind it, were loaded"

        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_partitions([NewPartitions(account.topic, 4)])[account.topic].result(30)
        await_partitions(admin, account.topic, 4)
        account.send_orders(60, partition=3, first=500)  # written before a plan has seen the partition
        account.settle(late, "late", commit=True)
        account.transact(map(order, range(600, 620)), commit=False, partition=2, name="c")
        document = load()

        only_holes = [range_ for range_ in document["ranges"] if range_["partition"] == 2]  # type: ignore[attr-defined]
        assert only_holes == [
            {"partition": 2, "from": 0, "until": 21, "rows": 0, "quarantined": 0, "holes": 21, "filtered": 0}
        ]  # twenty aborted records and their marker
        assert load()["state"] == "empty"

    assert find_faults(db, account) == []


def test_a_load_of_holes_alone_moves_the_position_and_publishes_no_row(
    db: str, kafka: Broker, make_topic: MakeTopic, environment: dict[str, str], tmp_path: Path
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    write_declaration(tmp_path, account.topic)
    account.transact(map(order, range(30)), commit=False)

    code, document, stderr = LoadingProcess(environment, "orders").finish()

    assert code == 0, stderr
    assert document["rows"] == 0
    assert query(db, "select position from penstock.positions") == [(31,)]
    assert find_faults(db, account) == []
