"""The plan step against a real broker and a real ledger."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from declaring import declare
from fix_kafka import MakeTopic, await_partitions, create_topic
from penstock.errors import FencedError, HeldError, IdentityError, KafkaError, LogLostError, WrongUseError
from penstock.kafka.admin import find_offsets_at, read_log
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_load
from penstock.load.plan import plan_load
from penstock.model.ranges import Range
from penstock_stack.broker import Broker
from producing import Account, order
from proxy import LIST_OFFSETS, KafkaProxy

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def settings(kafka: Broker) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap}


def rows(db: str, query: str, *values: object) -> list[Any]:
    with psycopg.connect(db) as connection:
        return connection.execute(query, values).fetchall()


def set_state(db: str, load_id: int, state: str) -> None:
    with psycopg.connect(db) as connection:
        connection.execute("update penstock.load set state = %s, cause = 'a check failed' where load_id = %s",
                           [state, load_id])  # fmt: skip


def test_a_first_load_reads_from_the_log_start_up_to_the_end(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic(2))
    account.send_orders(10, partition=0)
    account.send_orders(5, partition=1)

    planned = plan_load(db, settings(kafka), declare(account.topic), "run")

    assert planned.load is not None
    assert planned.load.ranges == (Range(0, 0, 10), Range(1, 0, 5))
    assert planned.load.state == "planned"


def test_a_retried_plan_gets_the_same_load_although_more_records_arrived(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(10)
    first = plan_load(db, settings(kafka), declare(account.topic), "run")
    account.send_orders(10)

    again = plan_load(db, settings(kafka), declare(account.topic), "run")

    assert again.load == first.load


def test_the_next_run_supersedes_an_unfinished_load_and_plans_its_offsets_again(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(10)
    pipeline = declare(account.topic)
    first = plan_load(db, settings(kafka), pipeline, "run 1").load
    second = plan_load(db, settings(kafka), pipeline, "run 2").load

    assert first is not None
    assert second is not None
    assert second.ranges == first.ranges
    with open_ledger(db) as connection:
        ended = read_load(connection, first.load_id)
    assert (ended.state, ended.superseded_by) == ("superseded", second.load_id)
    with pytest.raises(FencedError, match=f"superseded by load {second.load_id}"):
        plan_load(db, settings(kafka), pipeline, "run 1")
    set_state(db, second.load_id, "published")
    assert plan_load(db, settings(kafka), pipeline, "run 1").load is None


def test_outside_its_window_a_pipeline_plans_nothing_unless_a_person_ignores_it(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(3)
    now = datetime.now(UTC)
    closed = f"{now + timedelta(hours=2):%H:%M}-{now + timedelta(hours=4):%H:%M}"
    opened = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=2):%H:%M}"
    outside = declare(account.topic, window=closed)
    planned = plan_load(db, settings(kafka), outside, "run 1")
    assert planned.load is None
    assert f"no load starts outside the window {closed}; it opens at" in planned.message
    assert rows(db, "select count(*) from penstock.loads") == [(0,)]
    ignored = plan_load(db, settings(kafka), outside, "run 2", ignore_window=True).load
    assert ignored is not None
    assert plan_load(db, settings(kafka), outside, "run 3").load is None
    assert rows(db, "select state from penstock.loads") == [("planned",)]  # it is not fenced by a run outside
    assert plan_load(db, settings(kafka), declare(account.topic, window=opened), "run 4").load is not None


def test_two_plans_at_once_leave_one_unfinished_live_load(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(10)
    pipeline = declare(account.topic)
    plan_load(db, settings(kafka), pipeline, "run 0")
    threads = [
        threading.Thread(target=plan_load, args=(db, settings(kafka), pipeline, f"run {number}"))
        for number in range(1, 6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert rows(db, "select state, count(*) from penstock.loads group by 1 order by 1") == [
        ("planned", 1),
        ("superseded", 5),
    ]


def test_a_first_run_over_an_empty_topic_ends_well_and_later_records_are_loaded(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    pipeline = declare(account.topic)

    assert plan_load(db, settings(kafka), pipeline, "run 1").load is None
    account.send_orders(3)
    later = plan_load(db, settings(kafka), pipeline, "run 2").load

    assert later is not None
    assert later.ranges == (Range(0, 0, 3),)


def test_start_latest_is_fixed_by_the_first_run_and_later_records_are_loaded(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(4)
    pipeline = declare(account.topic, start="latest")

    assert plan_load(db, settings(kafka), pipeline, "run 1").load is None
    account.send_orders(3)
    later = plan_load(db, settings(kafka), pipeline, "run 2").load

    assert later is not None
    assert later.ranges == (Range(0, 4, 7),)
    assert rows(db, "select from_offset, until_offset from penstock.gaps") == [(0, 4)]


def test_a_start_time_finds_the_first_record_not_older_or_else_the_end(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    producer = Producer(settings(kafka))
    for number in range(6):
        producer.produce(topic, order(number), partition=0, timestamp=1_700_000_000_000 + number * 1000)
    producer.produce(topic, order(9), partition=1, timestamp=1_600_000_000_000)
    assert producer.flush(30) == 0
    start = datetime.fromtimestamp(1_700_000_003, UTC)

    planned = plan_load(db, settings(kafka), declare(topic, start=start.isoformat()), "run")

    assert planned.load is not None
    assert planned.load.ranges == (Range(0, 3, 6),)  # the only record of partition 1 is older


def test_a_partition_added_later_starts_at_its_log_start(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    pipeline = declare(account.topic, start="latest")
    plan_load(db, settings(kafka), pipeline, "run 1")
    admin = AdminClient(settings(kafka))
    admin.create_partitions([NewPartitions(account.topic, 2)])[account.topic].result(30)
    await_partitions(admin, account.topic, 2)
    account.send_orders(5, partition=1)

    later = plan_load(db, settings(kafka), pipeline, "run 2").load

    assert later is not None
    assert later.ranges == (Range(1, 0, 5),)


def test_an_open_transaction_ends_the_plan_at_the_last_stable_offset(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(4)
    producer = account.begin("open")
    account.leave_open(producer, [order(100)])
    account.send_orders(4)

    committed = plan_load(db, settings(kafka), declare(account.topic), "run 1").load
    uncommitted = plan_load(
        db, settings(kafka), declare(account.topic, name="all_of_it", isolation="read_uncommitted"), "run 1"
    ).load
    producer.abort_transaction(30)

    assert committed is not None
    assert committed.ranges == (Range(0, 0, 4),)
    assert uncommitted is not None
    assert uncommitted.ranges == (Range(0, 0, 9),)


def test_a_log_that_lost_its_start_stops_the_plan_with_the_lost_offsets(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    pipeline = declare(account.topic)
    plan_load(db, settings(kafka), pipeline, "run 1")
    account.send_orders(10)
    account.delete_before(6)

    with pytest.raises(LogLostError, match=r"partition 0 offsets \[0, 6\) are lost: the log now starts at 6") as raised:
        plan_load(db, settings(kafka), pipeline, "run 2")

    assert raised.value.ranges == (Range(0, 0, 6),)
    assert raised.value.exit_code == 4
    assert rows(db, "select position from penstock.positions") == [(0,)]


def test_a_topic_created_again_under_its_name_is_another_topic(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic())
    pipeline = declare(account.topic)
    account.send_orders(5)
    plan_load(db, settings(kafka), pipeline, "run 1")
    admin = AdminClient(settings(kafka))
    admin.delete_topics([account.topic])[account.topic].result(30)
    create_topic(kafka.bootstrap, account.topic, 1)
    account.send_orders(8)

    with pytest.raises(IdentityError, match="was deleted and created again"):
        plan_load(db, settings(kafka), pipeline, "run 2")


def test_a_position_beyond_the_end_stops_the_plan(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic())
    pipeline = declare(account.topic)
    account.send_orders(5)
    plan_load(db, settings(kafka), pipeline, "run 1")
    with psycopg.connect(db) as connection:
        connection.execute("update penstock.position set position = 50")

    with pytest.raises(LogLostError, match="the position 50 is beyond the end of the log, 5"):
        plan_load(db, settings(kafka), pipeline, "run 2")


def test_a_missing_topic_is_reported_and_nothing_is_written(db: str, kafka: Broker) -> None:
    with pytest.raises(KafkaError, match="the description of topic no_such_topic"):
        plan_load(db, settings(kafka), declare("no_such_topic"), "run")

    assert rows(db, "select * from penstock.pipeline") == []


def test_a_target_that_another_pipeline_loads_is_refused(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(5)
    plan_load(db, settings(kafka), declare(account.topic), "run")

    with pytest.raises(WrongUseError, match=r"another pipeline of this database loads the target analytics\.orders"):
        plan_load(db, settings(kafka), declare(account.topic, name="returns", target="analytics.orders"), "run")

    assert rows(db, "select name from penstock.pipeline") == [("orders",)]


def test_a_held_load_stops_the_next_run_until_the_declaration_changes(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(5)
    held = plan_load(db, settings(kafka), declare(account.topic), "run 1").load
    assert held is not None
    set_state(db, held.load_id, "held")

    for run_id in ("run 1", "run 2"):
        with pytest.raises(HeldError, match="held: a check failed") as stopped:
            plan_load(db, settings(kafka), declare(account.topic), run_id)
        assert (stopped.value.pipeline, stopped.value.load) == ("orders", held.load_id)
        assert stopped.value.ranges == held.ranges

    changed = plan_load(db, settings(kafka), declare(account.topic, owner="another team"), "run 2")
    assert changed.ended_hold == held.load_id
    assert changed.load is not None
    assert changed.load.ranges == held.ranges


@pytest.mark.parametrize("start", ["earliest", "latest", "2026-01-01T00:00:00Z"])
def test_nothing_is_planned_from_offsets_that_kafka_did_not_report(
    start: str, db: str, make_topic: MakeTopic, kafka: Broker, faulty_network: KafkaProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Without an answer of the broker the client returns an invalid offset, and no error."""
    monkeypatch.setattr("penstock.kafka.admin.ANSWER_SECONDS", 1)
    account = Account(kafka.bootstrap, make_topic(2))
    account.send_orders(10)
    through = {"bootstrap.servers": faulty_network.address}
    faulty_network.lose_requests(LIST_OFFSETS, 1000)

    with pytest.raises(KafkaError, match=f"the offsets of topic {account.topic} partition 0"):
        plan_load(db, through, declare(account.topic, start=start), "run")

    assert rows(db, "select count(*) from penstock.position") == [(0,)]
    faulty_network.heal()
    plan_load(db, through, declare(account.topic, start=start), "run")
    assert rows(db, "select sum(position)::int from penstock.position") == [(10 if start == "latest" else 0,)]


def test_a_time_without_an_answer_of_kafka_is_not_the_end_of_the_log(
    db: str, make_topic: MakeTopic, kafka: Broker, faulty_network: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kafka.admin.ANSWER_SECONDS", 1)
    account = Account(kafka.bootstrap, make_topic(1))
    account.send_orders(10)
    log = read_log(settings(kafka), account.topic, "read_committed")
    faulty_network.lose_requests(LIST_OFFSETS, 1000)

    with pytest.raises(KafkaError, match="did not answer"):
        find_offsets_at({"bootstrap.servers": faulty_network.address}, log, NEW_YEAR, "read_committed")
