"""Another topic, another cluster or a truncated log: it is noticed, refused, and loaded only after an adoption."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from declaring import declare, write_declaration
from fix_kafka import create_topic
from penstock.backfill.request import AllGaps, ByOffsets, Span
from penstock.backfill.run import renew_loads
from penstock.cli.main import app
from penstock.decide.adopt import adopt
from penstock.decide.rollback import roll_back
from penstock.decide.settle import approve_load
from penstock.errors import (
    FencedError,
    IdentityError,
    KafkaError,
    LogTruncatedError,
    OutcomeUnknownError,
    PenstockError,
    WrongUseError,
)
from penstock.kafka import admin as kafka_module
from penstock.ledger.connection import connect
from penstock.load.plan import plan_load
from penstock.load.publish import publish_load
from penstock.model.ranges import Range
from penstock.status.pipelines import read_status
from penstock_stack import ports
from penstock_stack.broker import Broker
from producing import Account
from receiving import refused_port
from truncating import truncate_log
from whole_loads import Loader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from fix_loaders import Start
    from penstock.decide.adopt import Adopted, From
    from penstock.model.health import Health


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A second cluster."""
    broker = Broker(tmp_path_factory.mktemp("other") / "kafka", *ports.choose(2))
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def create_again(account: Account, partitions: int = 1) -> None:
    """Delete a topic, and create another one with its name."""
    admin = AdminClient({"bootstrap.servers": account.bootstrap})
    admin.delete_topics([account.topic])[account.topic].result(30)
    create_topic(account.bootstrap, account.topic, partitions)


def plan(loader: Loader, run: str = "run") -> Any:
    return plan_load(loader.db, loader.settings.kafka, loader.pipeline, run)


def adopt_as_ann(loader: Loader, begin: From | None = None) -> Adopted:
    return adopt(loader.db, loader.settings.kafka, loader.pipeline, begin, "ann", "it was moved")


def health(loader: Loader) -> Health:
    with connect(loader.db) as connection:
        return read_status(connection, loader.settings.kafka, [loader.pipeline])[0].health


def by_generation(loader: Loader) -> list[Any]:
    """The generation and the id of every row; the generation is that of the row's load."""
    return loader.query(
        "select distinct r.generation, o._partition, o._offset, o.id from analytics.orders o"
        " join penstock.ranges r on r.load_id = o._load_id order by 1, 2, 3"
    )


@pytest.mark.parametrize("records", [3, 5, 9], ids=["fewer", "the same", "more"])
def test_a_topic_created_again_is_refused_and_adopted_with_its_own_offsets(start: Start, records: int) -> None:
    account, loader = start()
    account.send_orders(5)
    loader.load()
    create_again(account)
    account.send_orders(records, first=100)

    for run in ("one", "two"):
        with pytest.raises(IdentityError, match="was deleted and created again") as stopped:
            plan(loader, run)
        assert "penstock adopt orders --why" in stopped.value.next_step
    assert loader.query("select kind, ended_at from penstock.holds") == [("other_topic", None)]
    found = health(loader)
    assert (found.state, "penstock adopt orders" in found.next_step) == ("other_topic", True)

    adopted = adopt_as_ann(loader)
    loader.load()

    new = adopted.generation_id
    assert by_generation(loader) == [
        *((new - 1, 0, offset, offset) for offset in range(5)),
        *((new, 0, offset, 100 + offset) for offset in range(records)),
    ]
    assert loader.gaps() == []
    assert loader.query("select generation, position from penstock.positions order by 1") == [(1, 5), (2, records)]
    assert loader.query("select ended_by from penstock.holds") == [("ann adopted the log: it was moved",)]
    assert loader.query("select actor, what, why from penstock.event where load_id is null") == [
        ("ann", "adopted generation 2", "it was moved")
    ]
    assert health(loader).state == "ok"


def test_an_adopted_topic_may_start_at_its_end_and_its_earlier_records_are_a_gap(start: Start) -> None:
    account, loader = start()
    account.send_orders(5)
    loader.load()
    create_again(account)
    account.send_orders(4, first=100)

    adopt_as_ann(loader, "latest")
    assert plan(loader).load is None
    account.send_orders(1, first=200)
    loader.load()

    assert by_generation(loader)[5:] == [(2, 0, 4, 200)]
    assert loader.query("select * from penstock.gaps") == [("orders", 2, 0, 0, 4)]
    loader.backfill(AllGaps())
    assert loader.gaps() == []


def test_a_topic_with_fewer_partitions_is_another_topic_and_its_partitions_are_loaded(start: Start) -> None:
    account, loader = start(3)
    for partition in range(3):
        account.send_orders(4, partition=partition)
    loader.load()
    create_again(account, 2)
    account.send_orders(2, partition=1, first=100)

    with pytest.raises(IdentityError):
        plan(loader)
    adopt_as_ann(loader)
    loader.load()

    assert by_generation(loader)[12:] == [(2, 1, 0, 100), (2, 1, 1, 101)]
    assert loader.query("select partition from penstock.positions where generation = 2 order by 1") == [(0,), (1,)]


def test_a_topic_created_again_while_its_load_was_read_is_not_published(start: Start) -> None:
    account, loader = start()
    account.send_orders(5)
    load_id = plan(loader).load.load_id
    create_again(account)
    account.send_orders(5, first=100)
    loader.stage(load_id)  # reads the planned offsets from another topic

    with pytest.raises(IdentityError, match="the topic has changed since the load was planned") as refused:
        publish_load(loader.db, loader.settings.kafka, load_id)

    assert not refused.value.may_retry
    assert loader.rows() == []
    assert (loader.covered(), loader.state(load_id)) == ([], "validated")
    loader.query("update penstock.load set state = 'held' returning 1")
    with pytest.raises(IdentityError):
        approve_load(loader.db, loader.settings.kafka, load_id, "ann", "it looks right")
    assert loader.rows() == []

    adopt_as_ann(loader)

    assert loader.state(load_id) == "superseded"
    with pytest.raises(FencedError):
        publish_load(loader.db, loader.settings.kafka, load_id)
    loader.load()
    assert by_generation(loader) == [(2, 0, offset, 100 + offset) for offset in range(5)]


def test_without_kafka_no_load_is_published_and_a_published_load_is_found(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_module, "ANSWER_SECONDS", 3)  # 120 in use
    account, loader = start()
    account.send_orders(5)
    load_id = plan(loader).load.load_id
    loader.stage(load_id)
    away = {"bootstrap.servers": f"127.0.0.1:{refused_port()}"}

    with pytest.raises(KafkaError) as failed:
        publish_load(loader.db, away, load_id)

    assert failed.value.may_retry
    assert (loader.rows(), loader.state(load_id)) == ([], "validated")
    assert publish_load(loader.db, loader.settings.kafka, load_id).by_this_call
    assert not publish_load(loader.db, away, load_id).by_this_call


def test_a_topic_deleted_before_the_publish_stops_the_publish(start: Start) -> None:
    account, loader = start()
    account.send_orders(5)
    load_id = plan(loader).load.load_id
    loader.stage(load_id)
    admin = AdminClient({"bootstrap.servers": account.bootstrap})
    admin.delete_topics([account.topic])[account.topic].result(30)

    with pytest.raises(PenstockError, match=f"the description of topic {account.topic}") as refused:
        publish_load(loader.db, loader.settings.kafka, load_id)

    assert not isinstance(refused.value, OutcomeUnknownError)
    assert loader.rows() == []


def test_another_cluster_is_refused_and_a_return_to_the_first_continues_its_loads(start: Start, other: Broker) -> None:
    account, here = start()
    account.send_orders(5)
    here.load()
    there = Loader(here.db, other.bootstrap, here.spark, here.pipeline)
    create_topic(other.bootstrap, account.topic, 1)
    Account(other.bootstrap, account.topic).send_orders(9, first=100)

    with pytest.raises(IdentityError, match="the cluster is"):
        plan(there)
    load_id = plan_after(account, here)
    here.stage(load_id)
    with pytest.raises(IdentityError, match="the cluster is"):
        publish_load(there.db, there.settings.kafka, load_id)
    assert len(here.rows()) == 5

    adopt_as_ann(there)
    there.load()
    adopt_as_ann(here)  # back to the first cluster, whose first five records are in the table
    here.load()

    assert by_generation(here) == [
        *((1, 0, offset, offset) for offset in range(5)),
        *((2, 0, offset, 100 + offset) for offset in range(9)),
        *((3, 0, offset, offset) for offset in range(5, 8)),
    ]
    assert here.query("select generation, epoch from penstock.generations order by 1") == [(1, 1), (2, 1), (3, 2)]
    assert here.gaps() == []


def plan_after(account: Account, loader: Loader) -> int:
    """Plan a load of three more records."""
    account.send_orders(3, first=5)
    return int(plan(loader, "after").load.load_id)


def send_each(account: Account, numbers: range, partition: int) -> None:
    """Send each record in a batch of its own, because a log is truncated between batches only."""
    for number in numbers:
        account.send_orders(1, partition=partition, first=number)


@pytest.mark.parametrize("grown", [0, 4, 8], ids=["truncated", "grown again", "grown past the position"])
def test_the_offset_of_a_truncation_is_found_and_all_new_records_are_loaded_once(
    db: str, other: Broker, spark: SparkSession, grown: int
) -> None:
    """A real truncation: the broker is killed, loses the end of one partition, and starts with the same topic."""
    account = Account(other.bootstrap, f"cut_{grown}")
    create_topic(other.bootstrap, account.topic, 2)
    loader = Loader(db, other.bootstrap, spark, declare(account.topic))
    send_each(account, range(12), 0)
    send_each(account, range(12, 15), 1)
    loader.load()
    truncate_log(other, account.topic, 0, 7)
    send_each(account, range(100, 100 + grown), 0)  # before the next plan
    end = 7 + grown

    with pytest.raises(LogTruncatedError) as stopped:
        plan(loader)

    if end < 12:
        assert f"the position 12 is beyond the end of the log, {end}; the log no longer" in stopped.value.what
        assert f"holds the loaded records of offsets [{end}, 12)" in stopped.value.what
    else:
        assert "the log was truncated at 7, below the position 12, and has grown again" in stopped.value.what
    assert "penstock adopt orders" in stopped.value.next_step
    assert "penstock adopt orders" in health(loader).next_step
    adopted = adopt_as_ann(loader)
    assert adopted.positions == {0: 7, 1: 3}
    send_each(account, range(200, 210), 0)
    send_each(account, range(15, 17), 1)
    loader.load()

    new = [*range(100, 100 + grown), *range(200, 210)]
    assert by_generation(loader) == [
        *((1, 0, offset, offset) for offset in range(12)),
        *((1, 1, offset, 12 + offset) for offset in range(3)),
        *((2, 0, 7 + place, number) for place, number in enumerate(new)),
        *((2, 1, 3, 15), (2, 1, 4, 16)),
    ]
    assert loader.gaps() == []
    assert loader.query("select generation, epoch from penstock.generations order by 1") == [(1, 1), (2, 2)]

    # Truncated again at a lower offset: a row is compared with the log if its own generation covers its offset.
    truncate_log(other, account.topic, 0, 5)
    assert adopt_as_ann(loader).positions == {0: 5, 1: 5}


def test_nothing_is_adopted_if_the_log_fits_or_only_an_open_transaction_delays_it(start: Start) -> None:
    account, loader = start()
    with pytest.raises(WrongUseError, match="has loaded nothing yet"):
        adopt_as_ann(loader)
    account.send_orders(5)
    loader.load()
    with pytest.raises(WrongUseError, match="nothing to adopt"):
        adopt_as_ann(loader)
    producer = account.begin("open")
    account.leave_open(producer, [b"{}"])
    loader.query("update penstock.position set position = 6 returning 1")  # as if loaded by read_uncommitted before

    with pytest.raises(WrongUseError, match="nothing to adopt"):
        adopt_as_ann(loader)

    producer.abort_transaction(30)
    loader.query("update penstock.position set position = 60 returning 1")
    with pytest.raises(WrongUseError, match="continue from their positions, not from the latest"):
        adopt_as_ann(loader, "latest")
    with pytest.raises(WrongUseError, match="--why is empty"):
        adopt(loader.db, loader.settings.kafka, loader.pipeline, None, "ann", " ")
    assert loader.query("select count(*) from penstock.generations") == [(1,)]


def test_a_load_planned_before_an_adoption_is_neither_published_nor_planned_again(start: Start) -> None:
    """The topic and its id are the same; only the generation shows that its offsets mean other records now."""
    account, loader = start()
    account.send_orders(20)
    first = loader.load()
    roll_back(loader.db, first, "ann", "wrong")
    backfill = loader.plan_backfill(AllGaps(), per_load=10)
    one, two = backfill.load_ids
    loader.stage(one)
    loader.query("update penstock.position set position = 25 returning 1")
    with pytest.raises(LogTruncatedError):
        loader.plan_backfill(ByOffsets((Span(0, 0, 5),)))

    adopt_as_ann(loader)

    assert [loader.state(each) for each in (one, two)] == ["discarded", "discarded"]
    loader.query(f"update penstock.load set state = 'validated' where load_id = {one} returning 1")
    with pytest.raises(FencedError, match="before its pipeline adopted another log"):
        publish_load(loader.db, loader.settings.kafka, one)
    loader.query(f"update penstock.load set state = 'failed' where load_id in ({one}, {two}) returning 1")
    with connect(loader.db) as connection, pytest.raises(FencedError):
        renew_loads(connection, loader.pipeline, int(backfill.backfill_id or 0))
    with pytest.raises(WrongUseError, match="belong to the log before the adoption"):
        loader.plan_backfill(ByOffsets((Span(0, 0, 5),)), replace=True)
    assert loader.rows() == []


def test_a_partition_without_loaded_records_continues_at_the_end_of_the_log(start: Start) -> None:
    account, loader = start(start="latest")
    account.send_orders(5)
    assert plan(loader).load is None
    loader.query("update penstock.position set position = 8 returning 1")

    assert adopt_as_ann(loader).positions == {0: 5}
    account.send_orders(1, first=5)
    assert plan(loader, "next").load.ranges == (Range(0, 5, 6),)


def test_adopt_shows_the_consequences_and_asks_before_it_changes_anything(start: Start, tmp_path: Path) -> None:
    account, loader = start()
    account.send_orders(5)
    loader.load()
    create_again(account)
    account.send_orders(3, first=100)
    write_declaration(tmp_path, account.topic)
    environment = {
        "PENSTOCK_DB": loader.db,
        "PENSTOCK_KAFKA": account.bootstrap,
        "PENSTOCK_PIPELINES": str(tmp_path),
    }

    def run(*arguments: str, answer: str = "") -> tuple[int, str, str]:
        done = CliRunner().invoke(app, [*arguments, "--why", "moved"], env=environment, input=answer)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    code, _, messages = run("adopt", "orders", answer="n\n")
    assert code == 1
    for line in (
        "was deleted and created again",
        "partition 0: 5 offsets in the table, position 5",
        "partition 0: the log holds [0, 3); the next load starts at 0",
        "the rows of generation 1 stay in analytics.orders",
        "nothing was changed",
    ):
        assert line in messages
    assert loader.query("select count(*) from penstock.generations") == [(1,)]
    code, _, messages = run("adopt", "orders", "--json")
    assert (code, "pass --yes with --json" in messages) == (2, True)
    code, _, messages = run("accept-loss", "orders")
    assert (code, "penstock adopt orders" in messages) == (4, True)

    code, out, _ = run("adopt", "orders", "--yes", "--from", "latest", "--json")
    assert code == 0
    assert json.loads(out) == {
        "pipeline": "orders", "state": "adopted", "generation": 2, "positions": [{"partition": 0, "position": 3}],
    }  # fmt: skip
    code, out, messages = run("accept-loss", "orders", "--json")
    assert (code, "nothing is lost" in messages) == (2, True)


def test_an_adoption_of_another_topic_than_the_shown_one_is_refused(start: Start) -> None:
    from penstock.decide.adopt import preview_adoption

    account, loader = start()
    account.send_orders(5)
    loader.load()
    create_again(account)
    shown = preview_adoption(loader.db, loader.settings.kafka, loader.pipeline, None)
    create_again(account)

    with pytest.raises(FencedError, match="changed since the preview"):
        adopt(loader.db, loader.settings.kafka, loader.pipeline, None, "ann", "moved", shown)

    assert loader.query("select count(*) from penstock.generations") == [(1,)]
