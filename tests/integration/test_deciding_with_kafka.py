"""Kafka is queried while no transaction is open; its answers are compared with the ledger under the lock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import declare
from loading_process import await_true, query
from penstock.backfill.plan import plan_backfill, preview_backfill
from penstock.backfill.request import ByTime, Request
from penstock.decide.accept_loss import accept_loss
from penstock.decide.adopt import adopt
from penstock.doctor.services import check_services
from penstock.errors import IdentityError, LogLostError, PenstockError
from penstock.ledger.connection import connect
from penstock.load.plan import plan_load, preview_plan
from penstock.load.stage import run_stage
from penstock.model.ranges import Range
from penstock.settings import Settings
from penstock.spark.driver import DriverExecutors
from penstock.status.pipelines import read_status
from privileges import superuser
from producing import Account, order
from proxy import LIST_OFFSETS
from staging_loads import begin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from fix_kafka import MakeTopic
    from penstock.declaration.pipeline import Pipeline
    from penstock_stack.broker import Broker
    from proxy import KafkaProxy

OPEN_TRANSACTIONS = (
    "select query from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    " and state like 'idle in transaction%%'"
)
T2024 = 1_704_067_200_000


class Site:
    """A pipeline of a topic behind a proxy."""

    def __init__(self, db: str, account: Account, proxy: KafkaProxy, **declared: Any) -> None:
        self.db = db
        self.account = account
        self.proxy = proxy
        self.kafka = {"bootstrap.servers": proxy.address}
        self.pipeline: Pipeline = declare(account.topic, **declared)

    def plan(self, run: str = "run", *, through: bool = True) -> Any:
        kafka = self.kafka if through else {"bootstrap.servers": self.account.bootstrap}
        return plan_load(self.db, kafka, self.pipeline, run)

    def step(self, act: Callable[[], Any], between: Callable[[int], object] = lambda _: None) -> Any:
        """Let Kafka answer step by step; no transaction may be open before a step. Return the result of `act`.

        Between two steps Kafka does not answer, so a transaction that is open then stays open and is found.
        """
        steps = 0
        self.proxy.hush()
        try:
            with ThreadPoolExecutor(1) as pool:
                call = pool.submit(act)
                try:
                    while await_true(lambda: self.proxy.held or call.done(), "Kafka is queried") and not call.done():
                        await_true(lambda: not query(self.db, OPEN_TRANSACTIONS), "no transaction waits for Kafka", 20)
                        between(steps)
                        steps += 1
                        self.proxy.speak()
                        self.proxy.hush()
                finally:
                    self.proxy.speak()
        finally:
            self.proxy.heal()
        assert steps > 5
        return call.result()


@pytest.fixture
def site(db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy) -> Site:
    return Site(db, Account(kafka.bootstrap, make_topic(2)), faulty_network)


def test_a_plan_holds_no_transaction_while_kafka_answers(site: Site) -> None:
    site.account.send_orders(10, partition=0)
    planned = site.step(site.plan)
    assert planned.load.ranges == (Range(0, 0, 10),)
    assert site.step(lambda: preview_plan(site.db, site.kafka, site.pipeline, "again")).load


def test_a_plan_from_a_time_with_nothing_to_load_holds_no_transaction(
    db: str, kafka: Broker, make_topic: MakeTopic, faulty_network: KafkaProxy
) -> None:
    site = Site(db, Account(kafka.bootstrap, make_topic(1)), faulty_network, start="2030-01-01T00:00:00Z")
    site.account.send_orders(3)
    planned = site.step(site.plan)
    assert planned.load is None
    assert query(db, "select position from penstock.position") == [(3,)]


def test_a_loss_is_found_and_accepted_without_a_transaction_that_waits_for_kafka(site: Site) -> None:
    site.plan("first", through=False)
    site.account.send_orders(10, partition=0)
    site.account.delete_before(6, partition=0)
    with pytest.raises(LogLostError, match=r"partition 0 offsets \[0, 6\) are lost"):
        site.step(site.plan)
    assert query(site.db, "select kind from penstock.hold where ended_at is null") == [("log_lost",)]
    accepted = site.step(lambda: accept_loss(site.db, site.kafka, site.pipeline, "ann", "a test"))
    assert [loss.range for loss in accepted.losses] == [Range(0, 0, 6)]
    assert site.plan("last", through=False).load.ranges == (Range(0, 6, 10),)


def test_another_topic_is_adopted_without_a_transaction_that_waits_for_kafka(site: Site) -> None:
    site.plan("first", through=False)
    with psycopg.connect(superuser(site.db)) as connection:
        connection.execute("update penstock.generation set topic_id = 'another'")
    with pytest.raises(IdentityError, match="not the topic that was loaded before"):
        site.step(site.plan)
    assert query(site.db, "select kind from penstock.hold where ended_at is null") == [("other_topic",)]
    adopted = site.step(lambda: adopt(site.db, site.kafka, site.pipeline, None, "ann", "a test"))
    assert adopted.positions == {0: 0, 1: 0}


def test_a_backfill_by_time_holds_no_transaction_while_kafka_answers(site: Site) -> None:
    for number in range(10):
        site.account.send([order(number)], partition=0, timestamp=T2024 + 1000 * number)
    site.plan("first", through=False)
    with connect(site.db) as connection:  # as if the first load had been rolled back
        connection.execute("update penstock.position set position = 10 where partition = 0")
        connection.execute("update penstock.load set state = 'discarded'")
    request = Request(ByTime(_at(3), _at(7)), "ann")
    draft = site.step(lambda: preview_backfill(site.db, site.kafka, site.pipeline, request))
    assert draft.choice.ranges == (Range(0, 3, 7),)
    planned = site.step(lambda: plan_backfill(site.db, site.kafka, site.pipeline, request, "fill"))
    assert len(planned.load_ids) == 1


def test_status_and_check_hold_no_transaction_while_kafka_answers(site: Site, tmp_path: Path) -> None:
    site.account.send_orders(10, partition=0)
    site.plan("first", through=False)

    def read() -> Any:
        with connect(site.db) as connection:
            return read_status(connection, site.kafka, [site.pipeline])

    (status,) = site.step(read)
    assert [partition.end for partition in status.partitions] == [10, 0]
    settings = Settings(site.db, site.kafka, tmp_path, "local[1]")
    assert all(finding.fits for finding in site.step(lambda: check_services(settings, [site.pipeline])))


def test_positions_that_move_while_kafka_is_queried_are_not_a_truncated_log(site: Site) -> None:
    site.account.send_orders(10, partition=0)
    site.plan("first", through=False)

    def publish(step: int) -> None:
        """Let another process publish newer records, so that Kafka's earlier answers are older than the positions."""
        if step < 12:
            site.account.send_orders(1, partition=0, first=10 + step)
            with connect(site.db) as connection:
                connection.execute(
                    "update penstock.position set position = %s, leader_epoch = 0 where partition = 0", [11 + step]
                )

    site.step(lambda: site.plan("second"), publish)
    assert query(site.db, "select position from penstock.position where partition = 0") == [(22,)]
    site.account.send_orders(1, partition=0, first=22)
    assert site.plan("third", through=False).load.ranges == (Range(0, 22, 23),)


def test_a_ledger_that_changes_with_every_answer_ends_the_plan_with_a_message(site: Site) -> None:
    site.plan("first", through=False)
    positions = iter(range(1, 10_000))

    def move(_: int) -> None:
        with connect(site.db) as connection:
            connection.execute("update penstock.position set leader_epoch = %s", [next(positions)])

    with pytest.raises(PenstockError, match="changed 5 times while Kafka was queried") as stopped:
        site.step(lambda: site.plan("second"), move)
    assert stopped.value.may_retry
    assert stopped.value.pipeline == "orders"


def test_a_plan_with_a_broker_that_answers_in_20_seconds_succeeds(site: Site) -> None:
    site.account.send_orders(10, partition=0)
    site.proxy.delay_replies(LIST_OFFSETS, 20)
    try:
        planned = site.plan()
    finally:
        site.proxy.heal()
    assert planned.load.ranges == (Range(0, 0, 10),)


def test_an_end_below_the_position_is_queried_again_after_pauses(site: Site) -> None:
    site.account.send_orders(5, partition=0)
    site.plan("first", through=False)
    with connect(site.db) as connection:
        connection.execute("update penstock.position set position = 10, leader_epoch = 0 where partition = 0")
        connection.execute("update penstock.load set state = 'discarded'")
    with ThreadPoolExecutor(1) as pool:
        before = site.proxy.seen[LIST_OFFSETS]
        planning = pool.submit(site.plan)
        await_true(lambda: site.proxy.seen[LIST_OFFSETS] >= before + 2, "the log's end was queried")
        with suppress(TimeoutError):
            planning.result(2)  # without pauses the plan gives up earlier
        site.account.send_orders(7, partition=0, first=5)
        planned = planning.result()
    assert planned.load.ranges == (Range(0, 10, 12),)


def test_spark_is_started_while_no_transaction_is_open(
    db: str, kafka: Broker, make_topic: MakeTopic, spark: SparkSession
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    account.send_orders(10)
    begun = begin(db, account.bootstrap, account.topic)

    def open_executors() -> DriverExecutors:
        await_true(lambda: not query(db, OPEN_TRANSACTIONS), "no transaction waits for Spark", 20)
        return DriverExecutors(spark.sparkContext)

    run_stage(begun.settings, begun.load_id, begun.attempt, open_executors)
    assert begun.load().state == "staged"


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(T2024 / 1000 + seconds, UTC)
