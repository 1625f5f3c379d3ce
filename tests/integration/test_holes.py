"""Holes named by the second reader, on a real broker and a real ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import kafka as kafka_python
import psycopg
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    ResourceType,
)
from typer.testing import CliRunner

from compacting import COMPACTED, alter, compacting
from declaring import declare, write_declaration
from fix_kafka import MakeTopic, create_topic
from fix_loads import fill_attempt, record_tasks
from guarding import guard
from loading_process import await_true, query
from penstock.backfill.plan import plan_backfill
from penstock.backfill.request import ByOffsets, Request, Span
from penstock.cli.main import app
from penstock.decide.adopt import adopt
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.errors import IdentityError, KafkaError
from penstock.holes import examination
from penstock.holes.examination import HoleRange, HolesNamed, name_holes
from penstock.holes.kinds import HOLDS_A_RECORD, KINDS, NO_BATCH, Kind, find_kinds
from penstock.kafka.admin import read_log
from penstock.kafka.batches import reader as second_reader
from penstock.kafka.batches.open_transactions import BY_THE_RECORD, NOT_LISTED, OpenTransaction, find_open_transactions
from penstock.kafka.batches.reader import SecondReader
from penstock.ledger import hole
from penstock.ledger.connection import LIMITS, connect
from penstock.ledger.hole import sum_holes
from penstock.ledger.load import begin_attempt, finish_staging, pass_checks, read_load
from penstock.load.plan import plan_load
from penstock.load.publish import publish_load
from penstock.model.load import Load
from penstock.model.log import Span as HoleSpan
from penstock.target.postgres.attempt import create_attempt_table, key_attempt_table
from penstock.target.postgres.preparation import ensure_indexes, ensure_table
from penstock_stack.broker import Broker
from plain_consumer import open_consumer, read_to_end
from privileges import superuser
from producing import Account, order

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # of the partition of this number


@dataclass(slots=True)
class Log:
    """A topic with records, and a pipeline that loads them without Spark."""

    db: str
    account: Account

    @property
    def settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self.account.bootstrap}

    def load(self, rows: set[tuple[int, int]] | None = None, **changes: Any) -> int:
        """Publish the new records, with a row for each visible one."""
        pipeline = declare(self.account.topic, **changes)
        load = plan_load(self.db, self.settings, pipeline, f"run {len(self.loads())}").load
        assert load is not None, "nothing is new"
        self.finish(load, self.account.visible() if rows is None else rows)
        return load.load_id

    def replace(self, *spans: Span, rows: set[tuple[int, int]] | None = None) -> int:
        """Replace published offsets by a replay."""
        request = Request(ByOffsets(spans), "tester", replace=True)
        pipeline = declare(self.account.topic)
        planned = plan_backfill(self.db, self.settings, pipeline, request, f"backfill {len(self.loads())}")
        (load_id,) = planned.load_ids
        with connect(self.db) as connection:
            load = read_load(connection, load_id)
        self.finish(load, self.account.visible() if rows is None else rows)
        return load_id

    def finish(self, load: Load, rows: set[tuple[int, int]], quarantined: Collection[tuple[int, int]] = ()) -> None:
        """Stage, validate and publish without Spark: these rows, as far as they are in the plan."""
        holes = [
            (range_.partition, offset)
            for range_ in load.ranges
            for offset in range(range_.from_offset, range_.until_offset)
            if (range_.partition, offset) not in rows
        ]
        with connect(self.db) as connection:
            ensure_table(connection, load.declaration)
            ensure_indexes(connection, load.declaration)
            attempt = begin_attempt(connection, load)
            create_attempt_table(connection, load, attempt)
            fill_attempt(connection, load, attempt, holes, quarantined)
            record_tasks(connection, load, attempt, holes, quarantined, 50)
            key_attempt_table(connection, load, attempt)
            finish_staging(connection, load, attempt)
            pass_checks(connection, read_load(connection, load.load_id))
        publish_load(self.db, self.settings, load.load_id)

    def loads(self) -> list[Any]:
        return query(self.db, "select load_id from penstock.loads")

    def name(self, again: list[int] | None = None) -> HolesNamed:
        return name_holes(self.db, self.settings, declare(self.account.topic), again)

    def sum(self) -> dict[str, int]:
        with connect(self.db) as connection:
            return sum_holes(connection, "orders", 1)

    def list_remembered(self) -> list[Any]:
        """The loads with a name for each hole, and the aborted records and markers of each."""
        return query(self.db, "select load_id, aborted, marker from penstock.named_load order by 1")

    def list_named(self) -> list[Any]:
        """Load, kind and number of the holes in the ledger."""
        return query(
            self.db, "select load_id, kind, holes from penstock.holes order by load_id, partition, from_offset, kind"
        )


@pytest.fixture
def log(db: str, kafka: Broker, make_topic: MakeTopic) -> Log:
    return Log(db, Account(kafka.bootstrap, make_topic()))


def counts(**found: int) -> dict[Kind, int]:
    return {kind: found.get(kind, 0) for kind in KINDS}


def test_markers_and_aborted_records_of_several_loads_are_named(log: Log) -> None:
    log.account.transact(map(order, range(10)), commit=True, name="a")  # [0, 10), marker 10
    log.account.transact(map(order, range(5)), commit=False, name="b")  # [11, 16), marker 16
    in_flight = log.account.begin("c")
    log.account.leave_open(in_flight, map(order, range(3)))  # [17, 20)
    log.account.send_orders(2)  # [20, 22), behind the open one
    first = log.load()
    assert log.name().counts == counts(aborted=5, marker=2)

    log.account.transact(map(order, range(4)), commit=False, name="b")  # [22, 26), marker 26
    log.account.settle(in_flight, "c", commit=False)  # marker 27
    second = log.load()
    named = log.name()

    assert named.counts == counts(aborted=7, marker=2)
    assert (named.unexplained, named.gone, named.beyond) == ((), (), ())
    assert log.list_named() == [
        (first, "aborted", 5),
        (first, "marker", 2),
        (second, "aborted", 7),
        (second, "marker", 2),
    ]
    assert log.name() == HolesNamed("orders"), "named once"


def test_a_transaction_over_several_loads_is_named_in_each_of_them(log: Log) -> None:
    log.account.transact(map(order, range(25)), commit=False, name="a")  # [0, 25), marker 25
    log.account.transact(map(order, range(24)), commit=True, name="a")  # [26, 50), marker 50
    loads = [log.load(max_records_per_partition=10) for _ in range(6)]

    assert log.name().counts == counts(aborted=25, marker=2)
    assert log.list_named() == [
        (loads[0], "aborted", 10),
        (loads[1], "aborted", 10),
        (loads[2], "aborted", 5),
        (loads[2], "marker", 1),
        (loads[5], "marker", 1),
    ]


def test_an_aborted_record_is_a_record_for_read_uncommitted(log: Log) -> None:
    log.account.transact(map(order, range(5)), commit=False)  # [0, 5), marker 5
    sent = {(each.partition, each.offset) for each in log.account.sent}
    load = log.load(sent - {(0, 3)}, isolation="read_uncommitted")
    named = log.name()

    assert named.counts == counts(unexplained=1, marker=1)
    assert named.unexplained == (HoleRange(load, 0, 3, 4, HOLDS_A_RECORD),)


def test_compacted_records_are_named_in_every_codec_and_rows_are_not_holes(
    log: Log, kafka: Broker, make_topic: MakeTopic
) -> None:
    partitions = range(len(CODECS))
    log.account.topic = make_topic(len(CODECS), **COMPACTED)
    for partition in partitions:
        send_keys(log, partition, "abcdefghij")  # [0, 10)
        transact_keys(log, partition, "xyz", "q")  # [10, 13), marker 13, 14, marker 15
    await_true(lambda: read_ends(log) == [16] * len(CODECS), "all markers are written")
    for partition in partitions:
        send_keys(log, partition, "acegibd")  # [16, 23)
    log.load({(partition, offset) for partition in partitions for offset in (*range(10), 14, *range(16, 23))})
    assert log.name().counts == counts(aborted=15, marker=10)

    with compacting(kafka, log.account.topic):
        await_compaction(log)
    assert log.name() == HolesNamed("orders"), "the loaded records are rows, not holes"
    again = log.replace(*(Span(partition, 0, 23) for partition in partitions), rows=read_visible(log))
    named = log.name()

    assert named.unexplained == ()
    assert named.counts["marker"] + named.counts["compacted"] == 5 * 12  # f, h, j, q and the second seven are left
    assert named.counts["compacted"] > 5 * 10, "compaction removed no marker"
    assert {load for load, _, _ in log.list_named()} == {again}

    alter(log.account.bootstrap, ResourceType.TOPIC, log.account.topic, "cleanup.policy", "delete")
    with SecondReader(log.settings) as reader:
        await_true(lambda: reader.is_compacted(log.account.topic) is False, "the topic is not compacted any more")
    late = log.replace(Span(0, 0, 14), rows=read_visible(log))
    named = log.name()
    assert named.counts["compacted"] == 7, "batches that lost records prove the compaction"
    assert [(each.load_id, each.from_offset, each.why) for each in named.unexplained] == [(late, 10, NO_BATCH)]


def test_a_record_that_a_load_missed_is_unexplained_until_a_replay(log: Log) -> None:
    log.account.transact(map(order, range(2)), commit=False)  # [0, 2), marker 2
    log.account.transact(map(order, range(10)), commit=True)  # [3, 13), marker 13, of the same producer
    missing = log.load(log.account.visible() - {(0, 5), (0, 6), (0, 9)})
    found = (
        HoleRange(missing, 0, 5, 7, HOLDS_A_RECORD),
        HoleRange(missing, 0, 9, 10, HOLDS_A_RECORD),
    )

    assert log.name() == HolesNamed("orders", counts(unexplained=3, aborted=2, marker=2), found)
    assert log.name().unexplained == found, "the hole stays unexplained until it is fixed"

    again = log.replace(Span(0, 5, 10))
    assert log.name().unexplained == ()
    assert log.list_named() == [(missing, "aborted", 2), (missing, "marker", 1), (missing, "marker", 1)]
    assert query(log.db, "select load_id, holes from penstock.covered order by 1, 2") == [
        (missing, 1), (missing, 3), (again, 0)
    ]  # fmt: skip


def test_a_row_deleted_by_hand_is_unexplained_until_it_is_inserted_again(log: Log) -> None:
    log.account.send_orders(5)
    load = log.load()
    assert log.name() == HolesNamed("orders")
    with connect(superuser(log.db)) as connection:
        connection.execute("create table public.kept as select * from analytics.orders where _offset = 2")
        connection.execute("delete from analytics.orders where _offset = 2")
        connection.execute("update penstock.coverage set rows = rows - 1, holes = holes + 1")

    named = log.name()
    assert named.unexplained == (HoleRange(load, 0, 2, 3, HOLDS_A_RECORD),)
    assert str(named.unexplained[0]) == f"load {load} partition 0 offsets [2, 3): the log holds a record there"
    (since,) = query(log.db, "select found_at from penstock.unexplained_holes")
    assert log.name().unexplained == named.unexplained
    assert query(log.db, "select found_at from penstock.unexplained_holes") == [since], "the date stays"

    with connect(superuser(log.db)) as connection:
        connection.execute("insert into analytics.orders select * from public.kept")
        connection.execute("update penstock.coverage set rows = rows + 1, holes = holes - 1")
    assert log.name() == HolesNamed("orders")
    assert log.list_named() == []


def test_holes_below_the_log_start_keep_their_alarm(log: Log) -> None:
    log.account.transact(map(order, range(5)), commit=True)  # [0, 5), marker 5
    alarming = log.load(log.account.visible() - {(0, 1)})
    alarm = log.name().unexplained
    log.account.transact(map(order, range(5)), commit=False)  # [6, 11), marker 11
    late = log.load()
    delete_until(log, 9)
    named = log.name()

    assert named.counts == counts(gone=3, aborted=2, marker=1)
    assert named.gone == (HoleRange(late, 0, 6, 12),)
    assert named.unexplained == alarm == (HoleRange(alarming, 0, 1, 2, HOLDS_A_RECORD),)


def test_a_partial_replacement_keeps_the_names_outside_its_range(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "WINDOW", 4)
    for _ in range(5):
        log.account.transact([order(1)], commit=True)  # a marker at each odd offset
    first = log.load()
    assert log.name().counts == counts(marker=5)
    named = query(log.db, "select offsets::text from penstock.naming order by offsets")
    assert named == [("[0,4)",), ("[4,8)",), ("[8,10)",)]

    delete_until(log, 4)
    second = log.replace(Span(0, 6, 7))
    assert ("unnamed", 1) in [named[1:] for named in log.list_named()]
    assert log.name().counts == counts(marker=2)  # 5 and 7, whose stretch was cut
    assert log.list_named() == [(first, "marker", 3), (first, "marker", 2)]
    assert second not in [named[0] for named in log.list_named()]


def test_a_load_with_a_name_for_each_hole_is_passed_over(log: Log) -> None:
    log.account.transact(map(order, range(5)), commit=True)
    first = log.load()
    log.name()
    log.account.transact(map(order, range(3)), commit=False)
    second = log.load()
    assert log.name([]).counts == counts(aborted=3, marker=1)
    assert log.list_remembered() == [(first, 0, 1)], "the second had none yet when the run began"
    log.name([])
    assert log.list_remembered() == [(first, 0, 1), (second, 3, 1)]

    with connect(superuser(log.db)) as connection:
        connection.execute("delete from penstock.naming")
    assert log.name([]) == HolesNamed("orders")
    assert log.name([first]).counts == counts(marker=1)
    assert log.name().counts == counts(aborted=3, marker=1), "without a choice all are looked at"


def test_holes_are_named_again_where_a_replay_changes_what_a_load_covers(log: Log) -> None:
    for _ in range(5):
        log.account.transact([order(1)], commit=True)  # a marker at each odd offset
    first = log.load()
    log.name()
    log.name()
    assert log.list_remembered() == [(first, 0, 5)]

    log.replace(Span(0, 6, 7))
    assert log.sum() == {"unnamed": 5}
    assert log.name([]).counts == counts(marker=5)
    assert log.sum() == {"marker": 5}


def test_the_sum_of_holes_follows_a_rollback_and_new_names(log: Log) -> None:
    log.account.transact(map(order, range(5)), commit=True)
    load = log.load()
    assert log.sum() == {"unnamed": 1}
    for _ in range(2):
        log.name()
        assert log.sum() == {"marker": 1}
    roll_back(log.db, load, "ann", "wrong")
    assert log.sum() == {}
    undo_rollback(log.db, load, "ann", "right")
    assert log.sum() == {"marker": 1}

    with connect(superuser(log.db)) as connection:
        connection.execute("update penstock.naming set marker = 0, unexplained = 1")
        connection.execute("update penstock.named_load set marker = 0, unexplained = 1")
    assert log.name([]).counts == counts(marker=1)
    assert log.sum() == {"marker": 1}


def test_a_load_that_another_session_changes_is_never_passed_over_in_silence(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LIMITS, "lock_timeout", "1s")
    log.account.transact(map(order, range(5)), commit=True)
    load = log.load()
    with connect(log.db) as changing:
        changing.execute("select from penstock.load for no key update")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            log.name()
    assert log.name().counts == counts(marker=1)
    with connect(log.db) as changing:
        changing.execute("select from penstock.load for no key update")
        assert log.name() == HolesNamed("orders"), "its hole has a name already"
        assert log.list_remembered() == []
    log.name()
    assert log.list_remembered() == [(load, 0, 1)]


def test_a_rollback_and_its_undo_while_holes_are_named_make_no_alarm(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.account.transact(map(order, range(5)), commit=True)
    load = log.load()

    def undo_first(*found: Any, **more: Any) -> Any:
        undo_rollback(log.db, load, "ann", "right")
        return find_kinds(*found, **more)

    find_unnamed = hole.find_unnamed

    def roll_back_after(*where: Any) -> Any:
        found = find_unnamed(*where)
        roll_back(log.db, load, "ann", "wrong")
        return found

    with monkeypatch.context() as patch:
        patch.setattr("penstock.holes.examination.find_kinds", undo_first)
        patch.setattr(hole, "find_unnamed", roll_back_after)
        assert log.name() == HolesNamed("orders")
    assert log.sum() == {"unnamed": 1}
    assert log.name().counts == counts(marker=1)


def test_a_row_that_is_deleted_beside_a_named_hole_is_unexplained(log: Log) -> None:
    log.account.transact(map(order, range(5)), commit=True)  # [0, 5), marker 5
    load = log.load()
    assert log.name().counts == counts(marker=1)
    with connect(superuser(log.db)) as connection:
        connection.execute("delete from analytics.orders where _offset = 2")
        connection.execute("update penstock.coverage set rows = rows - 1, holes = holes + 1")

    found = (HoleRange(load, 0, 2, 3, HOLDS_A_RECORD),)
    assert log.name() == HolesNamed("orders", counts(marker=1, unexplained=1), found)
    assert log.name().unexplained == found


def test_quarantined_records_are_not_holes(log: Log) -> None:
    log.account.transact(map(order, range(5)), commit=True)
    load = plan_load(log.db, log.settings, declare(log.account.topic), "run").load
    assert load
    log.finish(load, log.account.visible(), quarantined={(0, 2)})

    assert log.name().counts == counts(marker=1)


@pytest.mark.parametrize("unnamed", [True, False])
def test_holes_of_a_topic_that_was_created_again_keep_their_names(log: Log, unnamed: bool) -> None:
    log.account.transact(map(order, range(5)), commit=True)
    log.load()
    log.name()
    before = log.list_named()
    if unnamed:
        log.account.transact(map(order, range(5)), commit=True)
        log.load()
    create_again(log)

    with pytest.raises(IdentityError, match="deleted and created again"):
        log.name()
    assert log.list_named()[: len(before)] == before

    adopt(log.db, log.settings, declare(log.account.topic), None, "ann", "new")
    assert log.name() == HolesNamed("orders")
    assert [kind for _, kind, _ in log.list_named()] == ["marker", *(["unnamed"] if unnamed else [])]


def test_a_topic_created_again_during_the_read_is_an_error(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_reader, "ANSWER_SECONDS", 1)
    log.account.send_orders(1)
    known = read_log(log.settings, log.account.topic, "read_committed")
    with SecondReader(log.settings) as reader:
        assert reader.read_spans(known, 0, 0, "read_committed") == [HoleSpan(0, 1, "record")]
        create_again(log)
        with pytest.raises(KafkaError, match="UnknownTopicId"):
            reader.read_spans(known, 0, 0, "read_committed")


def test_the_command_lists_kinds_and_fails_for_unexplained_holes(log: Log, tmp_path: Path) -> None:
    write_declaration(tmp_path, log.account.topic)
    log.account.transact(map(order, range(5)), commit=True)
    load = log.load()
    environment = {
        "PENSTOCK_DB": log.db, "PENSTOCK_KAFKA": log.account.bootstrap, "PENSTOCK_PIPELINES": str(tmp_path)
    }  # fmt: skip

    done = CliRunner().invoke(app, ["holes", "orders", "--json"], env=environment)
    assert (done.exit_code, json.loads(done.stdout)) == (0, {
        "pipeline": "orders", "ok": True, "named": counts(marker=1), "unexplained": [], "gone": [], "beyond": [],
        "holes": [{"load": load, "partition": 0, "from": 0, "until": 6, "kind": "marker", "holes": 1}],
    })  # fmt: skip

    log.account.send_orders(2)
    missing = log.load(set())
    done = CliRunner().invoke(app, ["holes", "orders"], env=environment)
    assert done.exit_code == 1
    assert done.stdout.split()[6:] == [
        str(load),
        *["0", "0", "6", "marker", "1"],
        str(missing),
        *["0", "6", "8", "unexplained", "2"],
    ]
    assert f"load {missing} partition 0 offsets [6, 8): the log holds a record there" in done.stderr


def test_an_open_transaction_is_reported_with_its_producer_until_it_ends(log: Log) -> None:
    log.account.send_orders(3)
    before = datetime.now(UTC)
    in_flight = log.account.begin("stuck")
    log.account.leave_open(in_flight, map(order, range(2)))  # [3, 5)
    log.account.send_orders(4)  # [5, 9)
    log.load()

    planned = plan_load(log.db, log.settings, declare(log.account.topic), "nothing")
    assert "6 offsets of partitions 0 are behind open transactions" in planned.message
    (found,) = find_open_transactions(log.settings, [log.account.topic])
    (producer,) = find_active_producers(log, 3)

    assert (found.topic, found.partition, found.first_offset, found.held_back) == (log.account.topic, 0, 3, 6)
    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.producer_epoch)
    assert found.transactional_id == f"{log.account.topic}-stuck"
    assert found.began_at
    assert abs(found.began_at - before) < timedelta(minutes=1)
    assert found.unknown == ()

    # The second reader has no such setting. The finding still reports the offsets that are held back.
    (nameless,) = find_open_transactions({**log.settings, "ssl.cipher.suites": "DEFAULT"}, [log.account.topic])
    assert (nameless.first_offset, nameless.held_back, nameless.producer_id) == (3, 6, None)
    assert "ssl.cipher.suites" in nameless.unknown[0]

    log.account.settle(in_flight, "stuck", commit=False)
    assert find_open_transactions(log.settings, [log.account.topic]) == []


def test_a_user_with_few_rights_names_holes_and_finds_the_producer(
    db: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = guard(tmp_path / "keys")
    broker, ann = guarded.broker, guarded.ann
    try:
        guarded.start()
        create_topic(broker.bootstrap, "guarded", 1)
        log = Log(db, Account(broker.bootstrap, "guarded"))
        guarded.allow("ann", ResourceType.TOPIC, "guarded", AclOperation.READ)
        log.account.transact([order(1)], commit=True)
        load = log.load(set())
        log.account.leave_open(log.account.begin("stuck"), [order(1)])
        (known,) = find_open_transactions(log.settings, ["guarded"])
        assert known.transactional_id == "guarded-stuck"

        (found,) = await_true(lambda: may(lambda: find_open_transactions(ann, ["guarded"])), "the right is there")
        assert (found.producer_id, found.producer_epoch) == (known.producer_id, known.producer_epoch)
        assert (found.transactional_id, found.unknown) == (None, (NOT_LISTED, BY_THE_RECORD))
        assert found.began_at
        assert known.began_at
        assert abs(found.began_at - known.began_at) < timedelta(minutes=1)

        named = name_holes(db, ann, declare("guarded"))
        assert named.unexplained == (HoleRange(load, 0, 0, 1, HOLDS_A_RECORD),)
        assert named.counts["marker"] == 1
        with SecondReader(ann) as reader:
            assert reader.is_compacted("guarded") is None, "the user may not describe the topic's settings"
        monkeypatch.setattr(second_reader, "ANSWER_SECONDS", 2)
        with pytest.raises(KafkaError) as caught:
            SecondReader({**ann, "sasl.password": "canary"})
        assert "canary" not in str(caught.value)
    finally:
        broker.kill()


def may(ask: Callable[[], list[OpenTransaction]]) -> list[OpenTransaction]:
    """The open transactions; none while the user has no right to list them."""
    try:
        return [each for each in ask() if each.producer_id is not None]
    except KafkaError:
        return []


def send_keys(log: Log, partition: int, keys: str) -> None:
    """Send a record for each key, in one batch."""
    produce_keys(log, open_producer(log, partition), partition, keys)


def transact_keys(log: Log, partition: int, aborted: str, committed: str) -> None:
    """Send records in a transaction that is aborted, and by the same producer others in one that is committed.

    Compaction keeps what is left of the last batch of a producer.
    """
    producer = open_producer(log, partition, **{"transactional.id": f"{log.account.topic}-{partition}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    produce_keys(log, producer, partition, aborted)
    producer.abort_transaction(30)
    producer.begin_transaction()
    produce_keys(log, producer, partition, committed)
    producer.commit_transaction(30)


def open_producer(log: Log, partition: int, **settings: str) -> Producer:
    return Producer({**log.settings, "compression.type": CODECS[partition], "linger.ms": 50, "acks": "all", **settings})


def produce_keys(log: Log, producer: Producer, partition: int, keys: str) -> None:
    for key in keys:
        producer.produce(log.account.topic, b"value" * 50, key.encode(), partition)
    assert producer.flush(30) == 0


def read_ends(log: Log) -> list[int]:
    """The last stable offset of each partition."""
    known = read_log(log.settings, log.account.topic, "read_committed")
    return [partition.end for partition in known.partitions.values()]


def await_compaction(log: Log) -> None:
    """Wait until compaction has removed records of [0, 14) in every partition, and one marker.

    The log cleaner removes overwritten records, aborted records, and the first markers.
    """
    known = read_log(log.settings, log.account.topic, "read_committed")
    with SecondReader(log.settings) as reader:

        def compacted() -> bool:
            for partition in range(len(CODECS)):
                send_keys(log, partition, "z")  # only a segment that is not written to any more is compacted
            seen = [reader.read_spans(known, partition, 0, "read_committed") for partition in range(len(CODECS))]
            whats = [{span.content for span in spans if span.until_offset <= 14} for spans in seen]
            return all({"removed", "absent"} <= each for each in whats) and any("marker" not in each for each in whats)

        await_true(compacted, "the log cleaner has been there")


def read_visible(log: Log) -> set[tuple[int, int]]:
    """The records that librdkafka returns."""
    consumer = open_consumer(log.account.bootstrap, "seen", isolation_level="read_committed")
    try:
        consumer.assign([TopicPartition(log.account.topic, partition, 0) for partition in range(len(CODECS))])
        return {(record.partition(), record.offset()) for record in read_to_end(consumer)}
    finally:
        consumer.close()


def create_again(log: Log) -> None:
    """Delete the topic, and create another one of its name."""
    admin = AdminClient(log.settings)
    admin.delete_topics([log.account.topic])[log.account.topic].result(30)
    create_topic(log.account.bootstrap, log.account.topic, 1)
    log.account.sent.clear()


def delete_until(log: Log, offset: int) -> None:
    """Delete the log up to an offset, as retention does."""
    admin = AdminClient(log.settings)  # must live until it has answered
    (done,) = admin.delete_records([TopicPartition(log.account.topic, 0, offset)]).values()
    done.result(30)


def find_active_producers(log: Log, first_offset: int) -> list[Any]:
    """The producers whose open transaction begins at an offset, read from the partition's leader."""
    with SecondReader(log.settings) as reader:
        place = kafka_python.TopicPartition(log.account.topic, 0)
        producers = reader.admin.describe_producers([place])[place].active_producers
    return [each for each in producers if each.current_transaction_start_offset == first_offset]
