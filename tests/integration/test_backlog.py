"""Looks at the waiting records of many pipelines, against a real broker and a real ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from declaring import declare
from penstock.declaration.starts import parse_hours
from penstock.errors import KafkaError
from penstock.load.plan import plan_load
from penstock.model.backlog import AGAIN_AFTER, Start, Watched
from penstock.status.backlog import BacklogLook
from privileges import superuser
from producing import Account
from proxy import FETCH, LIST_OFFSETS

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker
    from proxy import KafkaProxy

DESCRIBE_TOPIC_PARTITIONS, JOIN_GROUP, FIND_COORDINATOR, METADATA = 75, 11, 10, 3
MINUTE = timedelta(minutes=1)


def watch(topic: str, name: str = "orders", records: int | None = None, wait: timedelta | None = None) -> Watched:
    return Watched(name, topic, "read_committed", records, wait)


def plan_empty(db: str, bootstrap: str, topic: str, name: str = "orders") -> None:
    """Plan over an empty topic, so that the ledger has positions."""
    pipeline = declare(topic, name=name, target=f"analytics.{name}")
    assert plan_load(db, {"bootstrap.servers": bootstrap}, pipeline, "first").load is None


def test_a_pipeline_starts_when_enough_offsets_wait_and_once_for_the_same_positions(
    db: str, kafka: Broker, make_topic: MakeTopic
) -> None:
    account, settings, look = (
        Account(kafka.bootstrap, make_topic(2)),
        {"bootstrap.servers": kafka.bootstrap},
        BacklogLook(),
    )
    plan_empty(db, kafka.bootstrap, account.topic)
    watched, now = [watch(account.topic, records=10)], datetime.now(UTC)
    account.send_orders(4, partition=0)
    account.send_orders(5, partition=1)
    assert look.find_starts(db, settings, watched, now) == {}
    account.send_orders(1, partition=1)
    assert look.find_starts(db, settings, watched, now) == {"orders": Start("orders", "min_records", 10)}
    assert look.find_starts(db, settings, watched, now) == {}
    assert look.find_starts(db, settings, watched, now + AGAIN_AFTER) != {}
    assert BacklogLook().find_starts(db, settings, watched, now) != {}  # another process knows nothing of it


def test_a_pipeline_starts_when_its_oldest_record_waits_too_long(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account, settings = Account(kafka.bootstrap, make_topic()), {"bootstrap.servers": kafka.bootstrap}
    plan_empty(db, kafka.bootstrap, account.topic)
    now = datetime.now(UTC)
    account.send([b"{}"], timestamp=int((now - 5 * MINUTE).timestamp() * 1000))
    account.send([b"{}"], timestamp=int(now.timestamp() * 1000))
    assert BacklogLook().find_starts(db, settings, [watch(account.topic, wait=6 * MINUTE)], now) == {}
    waits = BacklogLook().find_starts(db, settings, [watch(account.topic, wait=4 * MINUTE)], now)
    assert waits == {"orders": Start("orders", "max_wait", 2)}


def test_a_pipeline_outside_its_window_does_not_start(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account, noon = Account(kafka.bootstrap, make_topic()), datetime(2026, 3, 1, 12, tzinfo=UTC)
    account.send_orders(1)
    settings = {"bootstrap.servers": kafka.bootstrap}
    for window, starts in (("13:00-11:00", 0), ("11:00-13:00", 1)):
        watched = Watched("orders", account.topic, "read_committed", 1, None, parse_hours(window))
        assert len(BacklogLook().find_starts(db, settings, [watched], noon)) == starts


def test_a_pipeline_that_was_never_planned_starts(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(1)
    settings = {"bootstrap.servers": kafka.bootstrap}
    assert BacklogLook().find_starts(db, settings, [watch(account.topic, records=1)], datetime.now(UTC)) != {}


def test_a_pipeline_with_an_open_load_or_a_hold_does_not_start(db: str, kafka: Broker, make_topic: MakeTopic) -> None:
    account, settings = Account(kafka.bootstrap, make_topic()), {"bootstrap.servers": kafka.bootstrap}
    account.send_orders(3)
    load = plan_load(db, settings, declare(account.topic), "run").load
    assert load is not None
    watched = [watch(account.topic, records=1)]
    assert BacklogLook().find_starts(db, settings, watched, datetime.now(UTC)) == {}
    with psycopg.connect(superuser(db)) as connection:
        connection.execute("update penstock.load set state = 'discarded'")
    assert BacklogLook().find_starts(db, settings, watched, datetime.now(UTC)) != {}
    with psycopg.connect(superuser(db)) as connection:
        hold = "insert into penstock.hold (pipeline_id, kind, cause) "
        connection.execute(f"{hold} select pipeline_id, 'log_lost', 'c' from penstock.pipeline".encode())
    assert BacklogLook().find_starts(db, settings, watched, datetime.now(UTC)) == {}


def test_fifty_pipelines_are_looked_at_in_a_few_requests_that_read_no_record(
    db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy
) -> None:
    settings, look = {"bootstrap.servers": faulty_network.address}, BacklogLook()
    topics = [make_topic(2) for _ in range(50)]
    for number, topic in enumerate(topics):
        Account(kafka.bootstrap, topic).send_orders(number)
    watched = [watch(topic, f"p{number}", 40, MINUTE) for number, topic in enumerate(topics)]
    now = datetime.now(UTC)
    first = look.find_starts(db, settings, watched, now)
    assert sorted(first) == [f"p{number}" for number in range(40, 50)]

    before = faulty_network.seen.copy()
    look.find_starts(db, settings, watched, now + AGAIN_AFTER)
    asked = faulty_network.seen - before
    assert asked[LIST_OFFSETS] <= 2
    assert sum(asked.values()) <= 6, asked
    assert not {FETCH, JOIN_GROUP, FIND_COORDINATOR} & asked.keys()


def test_a_missing_topic_hides_no_other_and_an_outage_ends_with_the_next_look(
    db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kafka.admin.UNREACHABLE_SECONDS", 1)
    account, look = Account(kafka.bootstrap, make_topic()), BacklogLook()
    account.send_orders(1)
    settings = {"bootstrap.servers": faulty_network.address}
    watched = [watch("no_such_topic", "missing", 1), watch(account.topic, records=1)]
    now = datetime.now(UTC)
    assert list(look.find_starts(db, settings, watched, now)) == ["orders"]
    faulty_network.refusing = True
    faulty_network.cut()
    with pytest.raises(KafkaError):
        look.find_starts(db, settings, watched, now)
    faulty_network.heal()
    assert list(look.find_starts(db, settings, watched, now + AGAIN_AFTER)) == ["orders"]
