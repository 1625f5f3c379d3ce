"""Logs that lost records, on the real services: holds, recorded losses, alerts, and the next runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from declaring import declare
from noticing import send
from penstock.decide.accept_loss import accept_loss
from penstock.errors import IdentityError, LogLostError, LogTruncatedError, WrongUseError
from penstock.kafka.readers import native
from penstock.kafka.readers.contract import Source
from penstock.ledger.connection import connect
from penstock.load.plan import plan_load
from penstock.load.stage import begin_staging, run_stage
from penstock.model.ranges import Chunk, Range
from penstock.spark.driver import DriverExecutors
from penstock.status.pipelines import read_status
from producing import Account, order
from proving import find_faults
from receiving import Receiver
from whole_loads import Loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from fix_kafka import MakeTopic
    from penstock.model.health import Health
    from penstock_stack.broker import Broker

    Start = Callable[..., tuple[Account, Loader]]

FIRST = 1_700_000_000_000  # the time of the first record, in milliseconds; one a second follows


@pytest.fixture
def start(db: str, kafka: Broker, make_topic: MakeTopic, request: pytest.FixtureRequest) -> Start:
    """An account of a new topic, and its loader; Spark is started only for tests that stage."""

    def make(partitions: int = 1, *, spark: bool = False, **declared: Any) -> tuple[Account, Loader]:
        account = Account(kafka.bootstrap, make_topic(partitions))
        session: SparkSession | Any = request.getfixturevalue("spark") if spark else None
        return account, Loader(db, kafka.bootstrap, session, declare(account.topic, **{"alerts": "oncall", **declared}))

    return make


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started


def delete_before(account: Account, offset: int, partition: int = 0) -> None:
    """Delete all records below an offset, as retention would."""
    admin = AdminClient({"bootstrap.servers": account.bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(account.topic, partition, offset)]).values()
    deleted.result(30)


def plan(loader: Loader, run: str = "run") -> Any:
    return plan_load(loader.db, loader.settings.kafka, loader.pipeline, run)


def lose(start: Start, **declared: Any) -> tuple[Account, Loader]:
    """A pipeline whose log lost the offsets 0 to 6 after the first plan."""
    account, loader = start(**declared)
    plan(loader, "first")
    account.send_orders(10)
    delete_before(account, 6)
    return account, loader


def accept(loader: Loader, why: str = "they are gone") -> Any:
    return accept_loss(loader.db, loader.settings.kafka, loader.pipeline, "ann", why)


def health(loader: Loader) -> Health:
    with connect(loader.db) as connection:
        return read_status(connection, loader.settings.kafka, [loader.pipeline])[0].health


def holds(loader: Loader) -> list[Any]:
    return loader.query("select kind, ended_by from penstock.holds order by hold_id")


def losses(loader: Loader) -> list[Any]:
    return loader.query("select partition, from_offset, until_offset, actor, why from penstock.losses order by 1, 2")


def test_a_lost_log_holds_the_pipeline_once_until_a_person_accepts_the_loss(start: Start) -> None:
    _, loader = lose(start)

    for run in ("one", "two"):
        with pytest.raises(LogLostError, match=r"partition 0 offsets \[0, 6\) are lost") as stopped:
            plan(loader, run)
        assert "penstock accept-loss orders --why" in stopped.value.next_step
    assert holds(loader) == [("log_lost", None)]
    held = health(loader)
    assert held.state == "log_lost"
    assert "held since" in held.cause
    assert "penstock accept-loss orders" in held.next_step

    accepted = accept(loader)

    assert "recorded as lost: partition 0 offsets [0, 6)" in accepted.message
    assert losses(loader) == [(0, 0, 6, "ann", "they are gone")]
    assert loader.gaps() == []
    assert holds(loader) == [("log_lost", "ann accepted the loss: they are gone")]
    assert loader.query("select actor, what, why from penstock.event where load_id is null") == [
        ("ann", "loss accepted", "they are gone")
    ]
    assert plan(loader, "three").load.ranges == (Range(0, 6, 10),)


def test_a_hold_ends_by_itself_when_the_log_fits_again(start: Start) -> None:
    _, loader = lose(start)
    with pytest.raises(LogLostError):
        plan(loader, "one")
    loader.query("update penstock.position set position = 6 returning 1")

    assert plan(loader, "two").load.ranges == (Range(0, 6, 10),)

    assert holds(loader) == [("log_lost", "run two found the log as it has to be")]
    assert health(loader).state == "loading"


def test_a_loss_is_reported_with_the_times_before_and_after_its_records(start: Start) -> None:
    account, loader = start(spark=True)
    producer = Producer({"bootstrap.servers": account.bootstrap})
    for number in range(10):
        producer.produce(account.topic, order(number), timestamp=FIRST + number * 1000)
        if number == 3:
            assert producer.flush(30) == 0
            loader.load()
    assert producer.flush(30) == 0
    delete_before(account, 8)

    with pytest.raises(LogLostError) as stopped:
        plan(loader)

    last, first_left = (datetime.fromtimestamp(FIRST / 1000 + number, UTC) for number in (3, 8))
    assert (
        f"partition 0 offsets [4, 8) are lost: the log now starts at 8; they are from after "
        f"{last.isoformat(timespec='milliseconds')} (the last record published) and before "
        f"{first_left.isoformat(timespec='milliseconds')} (the first record left)"
    ) in stopped.value.what


def test_the_whole_log_may_be_lost_and_later_records_are_loaded(start: Start) -> None:
    account, loader = start()
    plan(loader, "first")
    account.send_orders(10)
    delete_before(account, 10)

    with pytest.raises(LogLostError, match=r"\[0, 10\) are lost"):
        plan(loader, "one")
    accept(loader)
    assert plan(loader, "two").load is None
    account.send_orders(1)
    assert plan(loader, "three").load.ranges == (Range(0, 10, 11),)


def test_losses_are_recorded_and_skipped_if_on_loss_declares_it(start: Start) -> None:
    account, loader = start(2, spark=True, on_loss="record")
    account.send_orders(4, partition=0)
    account.send_orders(4, partition=1)
    loader.load()
    account.send_orders(10, partition=0)
    account.send_orders(5, partition=1)
    delete_before(account, 9, partition=0)

    load_id = loader.load()

    assert losses(loader) == [(0, 4, 9, "penstock", "on_loss: record")]
    assert loader.gaps() == []
    assert loader.query("select partition, position from penstock.positions order by 1") == [(0, 14), (1, 9)]
    covered = [row[:3] for row in loader.covered() if row[3] == load_id]
    assert covered == [(0, 9, 14), (1, 4, 9)]
    assert holds(loader) == []
    reason = loader.query("select reason from penstock.losses")[0][0]
    assert "the last record published" in reason


def test_a_loss_without_records_after_it_is_recorded_too(start: Start) -> None:
    account, loader = start(on_loss="record")
    plan(loader, "first")
    account.send_orders(10)
    delete_before(account, 10)

    planned = plan(loader)

    assert planned.load is None
    assert "skipped: partition 0 offsets [0, 10) are lost" in planned.message
    assert loader.query("select position from penstock.positions") == [(10,)]
    assert [row[:3] for row in losses(loader)] == [(0, 0, 10)]


def test_a_truncation_of_one_partition_stops_all_and_records_no_loss_of_another(start: Start) -> None:
    account, loader = start(2, on_loss="record")
    plan(loader, "first")
    account.send_orders(10, partition=0)
    account.send_orders(10, partition=1)
    delete_before(account, 6, partition=0)
    loader.query("update penstock.position set position = 50 where partition = 1 returning 1")

    with pytest.raises(LogTruncatedError, match=r"no longer holds the loaded records of offsets \[10, 50\)") as stopped:
        plan(loader)

    assert "penstock adopt orders" in stopped.value.next_step
    assert losses(loader) == []
    assert holds(loader) == [("log_cut", None)]
    with pytest.raises(WrongUseError, match="the log was truncated") as refused:
        accept(loader)
    assert "penstock adopt orders" in refused.value.next_step
    assert losses(loader) == []


def test_a_log_lost_in_a_thousand_partitions_is_reported_in_a_few_lines(start: Start, receiver: Receiver) -> None:
    account, loader = start()
    plan(loader, "first")
    account.send_orders(10)
    delete_before(account, 6)
    with connect(loader.db) as connection:  # as if the topic had lost a thousand partitions with the records in them
        connection.execute(
            "insert into penstock.position select generation_id, number, 10, 0 from penstock.generation,"
            " generate_series(1, 1000) number"
        )

    with pytest.raises(LogTruncatedError, match=r"partition 0 offsets \[0, 6\) are lost") as stopped:
        plan(loader)

    assert len(str(stopped.value)) < 1500
    assert "and 996 more" in str(stopped.value)
    [(cause,)] = loader.query("select cause from penstock.hold")
    assert cause == stopped.value.what
    assert len(health(loader).cause) < 1500
    assert send(loader.db, [receiver.url]) == 1
    (message,) = receiver.messages
    assert len(message["message"]) < 1500


def test_a_preview_of_a_plan_holds_nothing_and_records_nothing(start: Start) -> None:
    from penstock.load.run import preview_load

    _, stopping = lose(start)
    with pytest.raises(LogLostError):
        preview_load(stopping.settings, stopping.pipeline)
    recording = stopping.pipeline.model_copy(update={"on_loss": "record"})
    planned = preview_load(stopping.settings, recording)

    assert planned.load is not None
    assert planned.load.ranges == (Range(0, 6, 10),)
    assert (holds(stopping), losses(stopping)) == ([], [])


def test_the_accepted_offsets_are_those_lost_now_and_not_those_lost_at_the_hold(start: Start) -> None:
    account, loader = lose(start)
    with pytest.raises(LogLostError):
        plan(loader)
    delete_before(account, 8)

    accept(loader)

    assert [row[:3] for row in losses(loader)] == [(0, 0, 8)]
    with pytest.raises(WrongUseError, match="nothing is lost"):
        accept(loader)
    assert [row[:3] for row in losses(loader)] == [(0, 0, 8)]


def test_a_loss_is_accepted_only_after_a_plan_with_a_reason_and_of_the_same_topic(start: Start) -> None:
    account, loader = start()
    with pytest.raises(WrongUseError, match="has loaded nothing yet"):
        accept(loader)
    plan(loader, "first")
    account.send_orders(3)
    delete_before(account, 2)
    with pytest.raises(WrongUseError, match="--why is empty"):
        accept(loader, "  ")
    loader.query("update penstock.generation set topic_id = 'another' returning 1")
    with pytest.raises(IdentityError) as refused:
        accept(loader)
    assert "penstock adopt orders" in refused.value.next_step
    assert losses(loader) == []


def test_a_load_that_read_the_lost_offsets_is_settled_first_and_another_is_ended(start: Start) -> None:
    account, loader = start()
    account.send_orders(10)
    load_id = plan(loader, "first").load.load_id
    delete_before(account, 6)
    for state in ("staged", "validated", "held"):
        loader.query(f"update penstock.load set state = '{state}' returning 1")
        with pytest.raises(WrongUseError, match=f"load {load_id}: the load is {state}") as refused:
            accept(loader)
        assert f"penstock discard {load_id}" in refused.value.next_step
        assert losses(loader) == []

    loader.query("update penstock.load set state = 'staging' returning 1")
    accept(loader)

    assert loader.state(load_id) == "superseded"
    assert [row[:3] for row in losses(loader)] == [(0, 0, 6)]


def test_a_hold_is_alerted_once_over_three_runs_that_fail_and_once_when_it_ends(
    start: Start, receiver: Receiver
) -> None:
    _, loader = lose(start)
    sent = []
    for run in ("one", "two", "three"):
        with pytest.raises(LogLostError):
            plan(loader, run)
        sent.append(send(loader.db, [receiver.url]))
    assert sent == [1, 0, 0]
    assert loader.query("select times_seen, state from penstock.incidents") == [(3, "open")]
    accept(loader)

    for run in ("four", "five"):
        plan(loader, run)
        send(loader.db, [receiver.url])

    assert [message["title"] for message in receiver.messages] == [
        "Penstock: orders is held",
        "Penstock: orders is no longer held",
    ]
    assert "[0, 6) are lost" in receiver.messages[0]["message"]
    assert "penstock accept-loss orders" in receiver.messages[0]["message"]
    assert "ann accepted the loss: they are gone" in receiver.messages[1]["message"]


def test_the_end_of_a_hold_is_sent_only_if_its_begin_was(start: Start, receiver: Receiver) -> None:
    _, loader = lose(start)
    with pytest.raises(LogLostError):
        plan(loader, "one")
    assert send(loader.db, [receiver.url]) == 1
    accept(loader)

    other = Loader(loader.db, loader.bootstrap, loader.spark, loader.pipeline)
    loader.query("update penstock.position set position = 0 returning 1")
    loader.query("delete from penstock.loss returning 1")
    with pytest.raises(LogLostError):
        plan(other, "two")  # a second hold, without a notice while it lasts
    accept(other)
    assert send(loader.db, [receiver.url]) == 1
    assert [message["title"] for message in receiver.messages] == [
        "Penstock: orders is held",
        "Penstock: orders is no longer held",
    ]


def test_a_hold_of_another_kind_is_alerted_again_and_the_first_has_not_ended(start: Start, receiver: Receiver) -> None:
    _, loader = lose(start)
    with pytest.raises(LogLostError):
        plan(loader, "one")
    send(loader.db, [receiver.url])
    loader.query("update penstock.position set position = 50 returning 1")
    with pytest.raises(LogTruncatedError):
        plan(loader, "two")
    send(loader.db, [receiver.url])

    assert [message["title"] for message in receiver.messages] == ["Penstock: orders is held"] * 2
    assert holds(loader) == [("log_lost", None), ("log_cut", None)]
    assert loader.query("select kind from penstock.holds where ended_at is null") == [("log_cut",)]


def test_a_recorded_loss_is_alerted_once_for_all_partitions_and_an_accepted_one_is_not(
    start: Start, receiver: Receiver
) -> None:
    account, loader = start(2, on_loss="record")
    plan(loader, "first")
    for partition in (0, 1):
        account.send_orders(10, partition=partition)
        delete_before(account, 6, partition)
    plan(loader, "one")
    assert [send(loader.db, [receiver.url]) for _ in range(2)] == [1, 0]

    (message,) = receiver.messages
    assert message["title"] == "Penstock: orders has lost records, and continues without them"
    assert "Offsets: partition 0 offsets [0, 6); partition 1 offsets [0, 6)" in message["message"]
    delete_before(account, 8)
    accept(loader)
    assert send(loader.db, [receiver.url]) == 0


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_a_loss_before_the_read_fails_the_load_and_the_next_plan_records_it(start: Start, reader: str) -> None:
    account, loader = start(spark=True, reader=reader, on_loss="record")
    account.send_orders(50)
    load_id = plan(loader, "one").load.load_id
    delete_before(account, 20)
    attempt = begin_staging(loader.db, load_id)
    assert attempt

    with pytest.raises(LogLostError, match="starts at offset 20") as stopped:
        run_stage(loader.settings, load_id, attempt, lambda: DriverExecutors(loader.spark.sparkContext))

    assert not stopped.value.may_retry
    (cause,) = loader.query(f"select cause from penstock.loads where load_id = {load_id} and state = 'failed'")
    assert "starts at offset 20" in cause[0]
    assert losses(loader) == []  # the failed load records nothing; the next plan does
    loader.load()
    assert [row[:3] for row in losses(loader)] == [(0, 0, 20)]
    assert loader.query("select min(_offset), count(*) from analytics.orders") == [(20, 30)]


def test_a_log_start_that_passes_holes_during_the_read_is_a_loss_but_not_read_records(
    start: Start,
) -> None:
    account, _ = start()
    account.send_orders(10)
    account.transact([order(number) for number in range(10, 20)], commit=False)
    account.send_orders(30_000, first=20)
    source = Source({"bootstrap.servers": account.bootstrap}, account.topic, "read_committed")

    def read(range_: Range) -> int:
        """Read a chunk whose offsets are all deleted after the first batch; return the number of records."""
        chunk = Chunk(0, range_)
        records = 0
        for batch in native.read_whole(source, chunk):
            if not records:
                delete_before(account, range_.until_offset)
            records += len(batch.offsets)
        return records

    # The holes from 10 on cannot be distinguished from deleted records.
    with pytest.raises(LogLostError, match="cannot be distinguished from holes") as lost:
        read(Range(0, 0, 2_000))
    assert lost.value.ranges == (Range(0, 10, 2_000),)
    assert read(Range(0, 2_000, 2_500)) == 500


def test_a_load_beside_a_loss_is_exact(start: Start) -> None:
    """Rows, losses and gaps account for every offset, and the rows equal the sent records."""
    account, loader = start(spark=True)
    account.send_orders(20)
    loader.load()
    account.send_orders(20, first=20)
    delete_before(account, 30)
    with pytest.raises(LogLostError):
        plan(loader)
    accept(loader)
    loader.load()

    assert loader.query("select array_agg(id order by id) from analytics.orders") == [
        ([*range(20), *range(30, 40)],)
    ]  # fmt: skip
    account.sent = [sent for sent in account.sent if not 20 <= sent.offset < 30]
    faults = [fault for fault in find_faults(loader.db, account) if "second reader" not in fault]
    assert faults == ["partition 0: coverage does not tile at 20: next is 30"]  # the loss is the only fault
    with psycopg.connect(loader.db) as connection, pytest.raises(psycopg.errors.ExclusionViolation):
        connection.execute(
            "insert into penstock.loss (pipeline_id, generation_id, partition, offsets, reason)"
            " select pipeline_id, generation_id, partition, '[29, 35)', 'twice' from penstock.loss"
        )
