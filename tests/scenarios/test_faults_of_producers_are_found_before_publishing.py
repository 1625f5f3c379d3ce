"""Faults of producers, made through a real broker: Penstock's expectations find each before anybody sees the rows."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import Producer

from declaring import COLUMNS
from fix_kafka import MakeTopic, add_partitions
from loading_process import await_true, query
from penstock.backfill.request import ByOffsets, Span
from penstock.load.validate import validate_load
from penstock.model.load import LoadState
from penstock.verify import second_reading
from privileges import superuser
from producing import HASTY
from proxy import PRODUCE, KafkaProxy
from whole_loads import Loader, MakeLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.load.validate import Verdict
    from penstock_stack.broker import Broker

NOON = 1_767_268_800_000  # of 1 January 2026
VERSIONED: dict[str, Any] = {"columns": COLUMNS | {"version": {"type": "integer", "path": "$.version"}}, "key": "text"}


def produce(
    bootstrap: str, topic: str, records: Iterable[tuple[str, int]], *, timestamp: int = 0, **settings: Any
) -> None:
    """Send a record for each key and version; without `settings` each one is acknowledged, in order."""
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", **settings})
    producer.list_topics(topic, timeout=10)
    for number, (key, version) in enumerate(records):
        value = json.dumps({"id": number, "note": key, "version": version})
        producer.produce(topic, value, key=key, timestamp=timestamp)
    assert producer.flush(60) == 0


def validate_next(loader: Loader) -> Verdict:
    """Plan, stage and validate the new records."""
    load = loader.plan()
    assert load is not None
    loader.stage_rows(load.load_id)
    return validate_load(loader.db, load.load_id)


def publish_next(loader: Loader) -> None:
    verdict = validate_next(loader)
    assert verdict.passed, verdict.cause
    loader.publish(verdict.load.load_id)


def result(db: str, load_id: int, partition: int | None = None) -> dict[str, Any]:
    """The figures of the declared check of a load."""
    [[observed]] = query(
        db,
        "select observed from penstock.check_results where kind = 'declared'"
        f" and load_id = {load_id} and partition is not distinct from {'null' if partition is None else partition}",
    )
    return dict(observed)


def declare_check(expect: str, **arguments: Any) -> dict[str, Any]:
    return VERSIONED | {"checks": [{"expect": expect, **arguments}]}


def test_retries_without_idempotence_are_held_as_copies_next_to_originals(
    db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy, make_loader: MakeLoader
) -> None:
    loader = make_loader(make_topic(), **declare_check("expect_business_id_unique", columns=["id"]))
    faulty_network.lose_replies(PRODUCE, 3)
    records = [(f"order-{number}", 1) for number in range(5)]
    retrying = {**HASTY, "enable.idempotence": False, "retries": 5, "linger.ms": 50}
    produce(faulty_network.address, loader.pipeline.topic, records, **retrying)

    verdict = validate_next(loader)

    assert verdict.load.state is LoadState.HELD
    assert verdict.cause == (
        "expect_business_id_unique: near_copies 15, far_copies 0, copies_elsewhere 0, partitions 1,"
        " at partition:offset 0:5 0:6 0:7 0:8 0:9"
    )
    assert result(db, verdict.load.load_id, 0)["places"][0]["other"] == [0, 0]
    assert query(db, "select count(*) from analytics.orders") == [(0,)]


def test_an_order_that_a_program_sends_again_is_found_in_an_earlier_load(
    db: str, kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader
) -> None:
    check = declare_check("expect_business_id_unique", columns=["note"], across="30d", severity="warning")
    loader = make_loader(make_topic(2), **check)
    produce(kafka.bootstrap, loader.pipeline.topic, [(f"order-{number}", 1) for number in range(40)])
    publish_next(loader)
    produce(kafka.bootstrap, loader.pipeline.topic, [("order-7", 1), ("order-99", 1)])

    verdict = validate_next(loader)

    assert (verdict.passed, verdict.warnings) == (True, 1)
    observed = result(db, verdict.load.load_id)
    assert (observed["near_copies"], observed["partitions"]) == (1, 1)
    loader.publish(verdict.load.load_id)
    [(first,)] = query(db, "select _offset from analytics.orders where note = 'order-7' order by _offset limit 1")
    assert observed["places"][0]["other"] == [observed["places"][0]["partition"], first]


def test_a_retry_with_five_requests_in_flight_is_held_as_late_records(
    db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy, make_loader: MakeLoader
) -> None:
    check = declare_check("expect_key_order_within_partition", key="_key", order_by="version")
    loader = make_loader(make_topic(), **check)
    faulty_network.lose_requests(PRODUCE, 1)
    reordering = {
        **HASTY, "enable.idempotence": False, "retries": 5, "max.in.flight": 5, "linger.ms": 0, "batch.num.messages": 1,
    }  # fmt: skip
    produce(faulty_network.address, loader.pipeline.topic, [("ann", version) for version in range(1, 6)], **reordering)

    verdict = validate_next(loader)

    assert verdict.load.state is LoadState.HELD
    observed = result(db, verdict.load.load_id, 0)
    versions = [row[0] for row in query(db, f"select version from penstock_stage.load_{verdict.load.load_id}_1"
                                            " order by _offset")]  # fmt: skip
    late = [version for at, version in enumerate(versions) if version < max(versions[:at], default=0)]
    assert sorted(versions) == [1, 2, 3, 4, 5]
    assert observed["late"] == len(late) > 0
    assert observed["worst_delay"] == max(max(versions[: versions.index(each)]) - each for each in late)


def test_a_late_record_of_the_next_load_is_found_by_the_last_value_in_the_target(
    db: str, kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader
) -> None:
    check = declare_check("expect_key_order_within_partition", key="_key", order_by="version", across="30d")
    loader = make_loader(make_topic(), **check)
    produce(kafka.bootstrap, loader.pipeline.topic, [("ann", 5), ("bob", 1)])
    publish_next(loader)
    produce(kafka.bootstrap, loader.pipeline.topic, [("ann", 4), ("bob", 2)])

    verdict = validate_next(loader)

    assert verdict.cause == (
        "expect_key_order_within_partition: late 1, worst_delay 1, partitions 1, at partition:offset 0:2"
    )


def test_keys_that_moved_to_added_partitions_name_the_partitions_as_the_cause(
    db: str, kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader
) -> None:
    check = declare_check("expect_key_in_one_partition", key="_key", across="10 loads", severity="warning")
    loader = make_loader(make_topic(2), **check)
    keys = [f"customer-{number}" for number in range(100)]
    produce(kafka.bootstrap, loader.pipeline.topic, [(key, 1) for key in keys])
    publish_next(loader)
    add_partitions(kafka.bootstrap, loader.pipeline.topic, 4)
    produce(kafka.bootstrap, loader.pipeline.topic, [(key, 2) for key in keys])

    verdict = validate_next(loader)

    observed = result(db, verdict.load.load_id)
    assert (observed["keys_moved"], observed["added_partitions"], verdict.warnings) == (47, [2, 3], 1)
    moved = {partition: result(db, verdict.load.load_id, partition)["keys_moved"] for partition in (2, 3)}
    assert (sum(moved.values()), observed["partitions"]) == (47, 2)


def test_records_that_acks_0_lost_are_missing_numbers_of_the_sequence(
    db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy, make_loader: MakeLoader
) -> None:
    check = declare_check("expect_sequence_without_gaps", key="_key", sequence="version", across="30d", severity="info")
    loader = make_loader(make_topic(), **check)
    produce(kafka.bootstrap, loader.pipeline.topic, [("ann", version) for version in range(1, 4)])
    publish_next(loader)
    faulty_network.lose_requests(PRODUCE, 1)
    unheard: dict[str, Any] = {"acks": "0", "enable.idempotence": False}
    produce(faulty_network.address, loader.pipeline.topic, [("ann", version) for version in range(4, 9)], **unheard)
    await_true(lambda: faulty_network.lost[PRODUCE] == 1, "the request is lost")
    faulty_network.heal()
    produce(kafka.bootstrap, loader.pipeline.topic, [("ann", 9)])

    verdict = validate_next(loader)

    assert (verdict.passed, verdict.warnings) == (True, 0)  # of severity info: recorded only
    observed = result(db, verdict.load.load_id, 0)
    assert (observed["gaps"], observed["missing"], observed["widest"]) == (1, 5, 5)


def test_a_producer_with_a_wrong_clock_is_found_by_its_timestamps(
    db: str, kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader
) -> None:
    check = declare_check("expect_record_time_near", max_ahead="5m", max_behind="30d")
    loader = make_loader(make_topic(), **check)
    produce(kafka.bootstrap, loader.pipeline.topic, [("ann", 1)])
    publish_next(loader)
    in_half_an_hour = int(1000 * time.time()) + 1_800_000  # the broker refuses timestamps beyond one hour
    produce(kafka.bootstrap, loader.pipeline.topic, [("ann", 2)], timestamp=in_half_an_hour)
    produce(kafka.bootstrap, loader.pipeline.topic, [("ann", 3)], timestamp=946_684_800_000)  # of the year 2000

    verdict = validate_next(loader)

    observed = result(db, verdict.load.load_id, 0)
    assert (verdict.passed, observed["ahead"], observed["behind"]) == (False, 1, 1)


def test_old_records_are_not_fresh_and_a_backfill_of_them_is_not_judged(
    db: str, kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader
) -> None:
    loader = make_loader(make_topic(), **declare_check("expect_fresh", within="2h", severity="warning"))
    produce(kafka.bootstrap, loader.pipeline.topic, [("ann", 1)], timestamp=NOON)
    verdict = validate_next(loader)
    assert verdict.warnings == 1
    loader.publish(verdict.load.load_id)

    [again] = loader.backfill(ByOffsets((Span(0, 0, 1),)), replace=True)

    assert query(db, f"select count(*) from penstock.check_results where kind = 'declared' and load_id = {again}") == [
        (0,)
    ]


def test_the_volume_is_compared_with_the_same_hour_of_past_weeks(
    db: str, kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader
) -> None:
    loader = make_loader(make_topic(), **declare_check("expect_volume_as_usual", severity="warning"))
    with psycopg.connect(superuser(db)) as connection:
        for week in (3, 2, 1):
            produce(kafka.bootstrap, loader.pipeline.topic, [("ann", version) for version in range(20)])
            verdict = validate_next(loader)
            assert result(db, verdict.load.load_id)["baseline"] == 3 - week
            loader.publish(verdict.load.load_id)
            connection.execute(
                "update penstock.load set planned_at = planned_at - make_interval(weeks => %s),"
                " published_at = published_at - make_interval(weeks => %s) where load_id = %s",
                [week, week, verdict.load.load_id],
            )
            connection.commit()
        produce(kafka.bootstrap, loader.pipeline.topic, [("ann", 1)])
        unusual = validate_next(loader)
        assert unusual.warnings == 1
        assert result(db, unusual.load.load_id) == {
            "rows": 1, "baseline": 3, "usual": 20, "at_least": 16, "at_most": 24,
        }  # fmt: skip
        loader.publish(unusual.load.load_id)
        # A load that was held does not count as usual.
        connection.execute("update penstock.load set held_at = now() where planned_at < now() - interval '20 days'")
        connection.commit()
        produce(kafka.bootstrap, loader.pipeline.topic, [("ann", 1)])
        assert result(db, validate_next(loader).load.load_id) == {"rows": 1, "baseline": 2, "needed": 3}


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_a_share_of_the_chunks_is_read_again_by_the_other_reader(
    db: str,
    kafka: Broker,
    make_topic: MakeTopic,
    make_loader: MakeLoader,
    monkeypatch: pytest.MonkeyPatch,
    reader: str,
) -> None:
    used: list[str] = []
    for name in ("try_reading", "read_natively"):
        monkeypatch.setattr(second_reading, name, spy(used, name, getattr(second_reading, name)))
    check = declare_check("expect_same_when_read_again", share=1.0)
    loader = make_loader(make_topic(2), reader=reader, **check)
    produce(kafka.bootstrap, loader.pipeline.topic, [(f"order-{number}", 1) for number in range(200)])
    verdict = validate_next(loader)
    assert (verdict.passed, result(db, verdict.load.load_id)) == (True, {"chunks": 2, "different": 0})
    assert used == ["try_reading" if reader == "native" else "read_natively"]
    loader.publish(verdict.load.load_id)

    produce(kafka.bootstrap, loader.pipeline.topic, [("order-1", 2)])
    load = loader.plan()
    assert load is not None
    loader.stage_rows(load.load_id)
    with psycopg.connect(superuser(db)) as connection:  # as if the first reading had seen another record
        connection.execute("update penstock.stage_task set log_hash = log_hash + 1 where load_id = %s", [load.load_id])
    held = validate_load(db, load.load_id)
    assert held.cause == "expect_same_when_read_again: chunks 1, different 1"


def spy(used: list[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, whose name is noted when it is called."""

    def call(*arguments: Any) -> Any:
        used.append(name)
        return function(*arguments)

    return call
