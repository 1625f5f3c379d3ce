"""Merging leaves in a real PostgreSQL: every snapshot shows every row once, while sessions read, write or die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import IsolationLevel

from declaring import COLUMNS, declare, write_declaration
from fix_loads import stage_rows
from loading_process import BIN, await_true, query
from penstock.backfill.request import ByOffsets, Span
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.doctor.answers import read_known
from penstock.doctor.judgement import judge_role
from penstock.doctor.services import _check_role
from penstock.errors import FencedError, PenstockError, WrongUseError
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import pass_checks, read_load
from penstock.load.publish import publish_in
from penstock.maintenance.run import maintain, preview_maintenance
from penstock.model.load import Kind
from penstock.model.ranges import Range
from penstock.target.postgres import levels
from penstock.target.postgres import merge as merging_module
from penstock.target.postgres.leaves import attach_leaf, read_leaves
from penstock.target.postgres.merge import Merge, merge_in
from producing import Account
from proving import Watcher, find_faults
from whole_loads import Loader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from fix_kafka import MakeTopic
    from penstock.declaration.pipeline import Pipeline
    from penstock.maintenance.run import Maintained
    from penstock_stack.broker import Broker
    from penstock_stack.postgres import Postgres

ORDERS = declare("topic", indexes=[["id"]])
ROWS = 10
LOADS = "select count(*) from penstock.load"
STRAY = "select relname from pg_class where relnamespace = 'penstock_stage'::regnamespace and relkind = 'r'"
COUNT = "select count(*), count(distinct (_partition, _offset)) from analytics.orders"


@pytest.fixture(autouse=True)
def _three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three leaves become one, so that a test needs few loads."""
    monkeypatch.setattr(levels, "FAN_IN", 3)


def validated(db: str, ranges: list[Range], kind: Kind = "live", pipeline: Pipeline = ORDERS) -> int:
    load_id = stage_rows(db, ranges, pipeline=pipeline, kind=kind)
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
    return load_id


def publish(db: str, load_id: int) -> int:
    with open_ledger(db) as connection:
        publish_in(connection, load_id)
    return load_id


def publish_loads(db: str, count: int, first: int = 0, pipeline: Pipeline = ORDERS) -> list[int]:
    """Published loads of ten rows each, one after the other in partition 0."""
    starts = range(first * ROWS, (first + count) * ROWS, ROWS)
    return [publish(db, validated(db, [Range(0, start, start + ROWS)], pipeline=pipeline)) for start in starts]


def merge_all(db: str, pipeline: Pipeline = ORDERS) -> Maintained:
    lines: list[str] = []
    return maintain(db, pipeline, lines.append)


def leaves(db: str) -> list[tuple[int, int]]:
    with open_ledger(db) as connection:
        found = [(leaf.from_load, leaf.until_load) for leaf in read_leaves(connection, ORDERS, 1)]
        assert read_known(connection, [ORDERS])["orders"].leaves == len(found), "the doctor counts the same leaves"
    return found


def rows(db: str) -> list[Any]:
    return query(db, "select _load_id, _partition, _offset, id, note from analytics.orders order by 1, 2, 3")


@contextmanager
def snapshot(
    db: str, first: str = LOADS, level: IsolationLevel = IsolationLevel.REPEATABLE_READ
) -> Iterator[psycopg.Connection[Any]]:
    """An open transaction that has run a statement; at REPEATABLE READ it keeps the snapshot of that statement."""
    with psycopg.connect(db) as connection:
        connection.isolation_level = level
        connection.execute(first)
        yield connection
        connection.rollback()


@contextmanager
def merging(db: str) -> Iterator[tuple[Any, psycopg.Connection[Any]]]:
    """A merge that has copied its leaves, and waits for the end of an older snapshot; the block may end it."""
    with ThreadPoolExecutor(1) as pool, snapshot(db) as older:
        future = pool.submit(merge_all, db)
        await_true(lambda: held_by_a_merge(db) or future.done(), "a merge holds its leaves")
        assert not future.done()
        yield future, older
        older.rollback()


def held_by_a_merge(db: str) -> bool:
    """Whether a merge has copied its leaves, and waits for the end of an older snapshot."""
    return bool(
        query(
            db,
            "select 1 from pg_stat_activity where datname = current_database() and state = 'idle in transaction'"
            " and application_name = 'penstock maintain' and query like 'select pid from pg_stat_activity%%'",
        )
    )


def test_merged_leaves_keep_their_rows_and_indexes(db: str) -> None:
    publish_loads(db, 4)
    with psycopg.connect(db) as connection:
        connection.execute("create index on analytics.orders (lower(note)) where id > 5")
    before = rows(db)

    assert preview_maintenance(db, ORDERS).leaves_after == 2
    assert leaves(db) == [(1, 2), (2, 3), (3, 4), (4, 5)]
    done = merge_all(db)

    assert (done.leaves_before, done.leaves_after, done.merges) == (4, 2, 1)
    assert leaves(db) == [(1, 4), (4, 5)]
    assert rows(db) == before
    assert query(db, "select indexname, split_part(indexdef, 'USING ', 2) from pg_indexes"
                     " where tablename = 'orders_loads_1_3' order by 1") == [
        ("merge_1_3_id_idx", "btree (id)"),
        ("merge_1_3_lower_idx", "btree (lower(note)) WHERE (id > 5)"),
        ("merge_1_3_pkey", "btree (_partition, _offset, _load_id)"),
    ]  # fmt: skip
    assert query(db, "select count(*) from pg_index i join pg_inherits h on h.inhrelid = i.indexrelid"
                     " where i.indrelid = 'analytics.orders_loads_1_3'::regclass") == [(2,)]  # fmt: skip
    assert merge_all(db).merges == 0


def test_the_swap_of_a_merged_leaf_reads_no_row_and_builds_no_index(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_loads(db, 3)
    ready: list[Any] = []

    def record_scans(connection: psycopg.Connection[Any], *given: Any) -> None:
        ready.extend(connection.execute("select indexname from pg_indexes where tablename = 'orders_loads_1_3'"))
        attach_leaf(connection, *given)

    monkeypatch.setattr(merging_module, "attach_leaf", record_scans)
    with open_ledger(db) as keeper, open_ledger(db) as reader:
        merge = Merge(ORDERS, 1, tuple(read_leaves(reader, ORDERS, 1)))
        reader.commit()
        keeper.execute("set client_min_messages = debug1")
        notices: list[str] = []
        keeper.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        assert merge_in(keeper, reader, merge) == 3 * ROWS
    assert sorted(ready) == [("merge_1_3_id_idx",), ("merge_1_3_pkey",)]
    assert any("implied by existing constraints" in message for message in notices), notices
    assert not any("verifying table" in message for message in notices), notices


def test_leaves_are_merged_by_levels_until_few_are_left(db: str) -> None:
    publish_loads(db, 13)
    before = rows(db)
    assert merge_all(db).leaves_after == 3
    assert leaves(db) == [(1, 10), (10, 13), (13, 14)]
    publish_loads(db, 5, first=13)
    query(db, "update penstock.load set counted_at = now(), moved_at = null returning 1")
    assert merge_all(db).leaves_after == 2
    moved = "select load_id from penstock.load where counted_at is null and moved_at is not null order by 1"
    assert query(db, moved) == [(load,) for load in range(10, 19)], "a verification counts merged loads again"
    assert leaves(db) == [(1, 10), (10, 19)]
    assert rows(db)[: len(before)] == before


def test_readers_that_poll_during_a_merge_see_every_row_once(db: str) -> None:
    publish_loads(db, 9)
    expected = (9 * ROWS, 9 * ROWS)
    ended = threading.Event()

    def poll(level: IsolationLevel) -> list[Any]:
        seen: list[Any] = []
        with psycopg.connect(db) as connection:
            connection.isolation_level = level
            while not (ended.is_set() and seen):
                connection.execute(LOADS)  # a snapshot from before the table is looked up
                seen += [connection.execute(COUNT).fetchone(), connection.execute(COUNT).fetchone()]
                connection.commit()
        return seen

    with ThreadPoolExecutor(2) as pool:
        polls = [pool.submit(poll, level) for level in (IsolationLevel.REPEATABLE_READ, IsolationLevel.READ_COMMITTED)]
        try:
            assert merge_all(db).merges == 4
        finally:
            ended.set()
        seen = [row for done in polls for row in done.result(60)]
    assert set(seen) == {expected}


def test_a_snapshot_from_before_the_swap_sees_every_row_and_a_publish_continues(db: str) -> None:
    publish_loads(db, 3)
    with merging(db) as (merged, older):
        publish_loads(db, 1, first=3)
        with snapshot(db) as reader:
            older.rollback()
            assert merged.result(60).merges == 1
            assert reader.execute(COUNT).fetchone() == (40, 40)
    assert leaves(db) == [(1, 4), (4, 5)]


@pytest.mark.parametrize(
    ("first", "level"),
    [
        (LOADS, IsolationLevel.REPEATABLE_READ),  # it must not see the load that is published behind it
        (COUNT, IsolationLevel.REPEATABLE_READ),
        (COUNT, IsolationLevel.READ_COMMITTED),  # it holds the target, and no snapshot
    ],
)
def test_an_open_transaction_postpones_a_merge_and_no_other_reader_waits(
    db: str, first: str, level: IsolationLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.target.postgres.merge.SWAP_SECONDS", 1)
    publish_loads(db, 2)
    with snapshot(db, first, level), ThreadPoolExecutor(1) as pool:
        publish_loads(db, 1, first=2)
        merged = pool.submit(merge_all, db)
        with psycopg.connect(db, autocommit=True) as other:
            other.execute("set lock_timeout = '1s'")
            while not merged.done():
                assert other.execute(COUNT).fetchone() == (30, 30)
        with pytest.raises(PenstockError, match=r"is postponed: for 1 s sessions read the target"):
            merged.result(60)
    assert len(leaves(db)) == 3
    assert merge_all(db).leaves_after == 1


def test_a_load_in_a_merged_leaf_is_rolled_back_and_brought_back(db: str) -> None:
    loads = publish_loads(db, 3)
    merge_all(db)
    before = rows(db)
    with snapshot(db, COUNT) as reader:
        rolled = roll_back(db, loads[1], "ann", "wrong prices")
        assert reader.execute(COUNT).fetchone() == (30, 30)

    assert [str(range_) for range_ in rolled.ranges] == ["partition 0 offsets [10, 20)"]
    assert rows(db) == [row for row in before if row[0] != loads[1]]
    assert query(db, "select from_offset, until_offset from penstock.gaps") == [(10, 20)]
    with psycopg.connect(db) as connection:
        connection.execute("alter table analytics.orders add column city text")
    undo_rollback(db, loads[1], "ann", "they were right")
    assert rows(db) == before
    assert query(db, "select count(*) from pg_class where relnamespace = 'penstock_kept'::regnamespace") == [(0,)]
    assert leaves(db) == [(1, 4)]


def test_a_rollback_is_undone_after_its_neighbours_were_merged(db: str) -> None:
    loads = publish_loads(db, 4)
    before = rows(db)
    roll_back(db, loads[1], "ann", "wrong prices")
    merge_all(db)
    assert leaves(db) == [(1, 5)]
    undo_rollback(db, loads[1], "ann", "they were right")
    assert rows(db) == before


def test_a_replay_takes_parts_of_two_loads_out_of_a_merged_leaf(db: str) -> None:
    publish_loads(db, 3)
    merge_all(db)
    replay = publish(db, validated(db, [Range(0, 5, 15)], "replay"))
    assert query(db, COUNT) == [(30, 30)]
    assert query(db, "select from_offset, until_offset, load_id from penstock.covered order by 1") == [
        (0, 5, 1), (5, 15, replay), (15, 20, 2), (20, 30, 3),
    ]  # fmt: skip
    publish_loads(db, 5, first=3)
    merge_all(db)
    assert leaves(db) == [(1, 10)]
    assert query(db, "select count(*), min(_offset), max(_offset) from analytics.orders where _load_id = 4") == [
        (10, 5, 14)
    ]
    assert query(db, COUNT) == [(80, 80)]


@pytest.mark.parametrize("what", ["replay", "rollback", "new column"])
def test_a_session_that_changes_published_rows_ends_a_running_merge(db: str, what: str) -> None:
    loads = publish_loads(db, 3)
    replay = validated(db, [Range(0, 5, 15)], "replay")
    with merging(db) as (merged, _):
        if what == "replay":
            publish(db, replay)
        elif what == "rollback":
            roll_back(db, loads[1], "ann", "wrong prices")
        else:
            wider = declare("topic", columns={**COLUMNS, "city": {"type": "text"}})
            validated(db, [Range(1, 0, 5)], pipeline=wider)
        with pytest.raises(PenstockError, match="was ended by a session that changes its leaves"):
            merged.result(60)
    assert len(leaves(db)) == (4 if what == "replay" else 2 if what == "rollback" else 3)
    assert query(db, COUNT) == [(20, 20) if what == "rollback" else (30, 30)]


def test_rows_deleted_by_hand_during_a_merge_do_not_return(db: str) -> None:
    publish_loads(db, 3)
    with merging(db) as (merged, _), ThreadPoolExecutor(1) as pool:
        deleted = pool.submit(query, db, "delete from analytics.orders where id = 7 returning id")
        with pytest.raises(PenstockError, match="is postponed: another session waits to change its leaves"):
            merged.result(60)
        assert deleted.result(60) == [(7,)]
    assert merge_all(db).leaves_after == 1
    assert query(db, COUNT) == [(29, 29)]


def test_no_merge_covers_an_unfinished_load(db: str) -> None:
    publish_loads(db, 2)
    waiting = validated(db, [Range(1, 0, 10)], "backfill")
    publish_loads(db, 2, first=2)
    assert merge_all(db).leaves_after == 4
    publish(db, waiting)
    assert merge_all(db).leaves_after == 3
    assert query(db, COUNT) == [(50, 50)]


def test_a_merge_whose_leaves_changed_after_its_plan_is_postponed(db: str) -> None:
    loads = publish_loads(db, 3)
    with closing(open_ledger(db)) as keeper, closing(open_ledger(db)) as reader:
        merge = Merge(ORDERS, 1, tuple(read_leaves(reader, ORDERS, 1)))
        reader.commit()
        roll_back(db, loads[1], "ann", "wrong prices")
        with pytest.raises(PenstockError, match="its leaves have changed since it was planned"):
            merge_in(keeper, reader, merge)


def test_one_leaf_can_hold_the_same_offsets_of_two_generations(db: str) -> None:
    publish_loads(db, 2)
    with psycopg.connect(db) as connection:
        connection.execute(
            "insert into penstock.generation (pipeline_id, cluster_id, topic_id) values (1, 'c', 'another')"
        )
        connection.execute("update penstock.load set run_id = run_id || ' before'")
    publish_loads(db, 1)
    assert merge_all(db).leaves_after == 1
    assert query(db, COUNT) == [(30, 20)]


def damage_key(db: str, load: int) -> None:
    """Store a row twice in a leaf, which is possible after a person has dropped its key."""
    leaf = f"analytics.orders_load_{load}"
    key = f"load_{load}_1_pkey"
    with psycopg.connect(db) as connection:
        connection.execute(f"alter table {leaf} drop constraint {key}".encode())
        connection.execute(f"insert into {leaf} select * from {leaf} where id % 10 = 3".encode())


def test_a_leaf_that_cannot_be_merged_is_named_and_the_others_are_merged(db: str) -> None:
    loads = publish_loads(db, 9)
    damage_key(db, loads[1])
    before = rows(db)

    done = merge_all(db)

    assert leaves(db) == [(1, 2), (2, 3), (3, 10)]
    assert rows(db) == before
    (left,) = done.left_out
    assert (left.leaf, left.from_load, left.until_load) == ("analytics.orders_load_2", 2, 3)
    assert "could not create unique index" in left.reason
    assert query(db, STRAY) == []

    again = merge_all(db)
    assert ([each.leaf for each in again.left_out], again.merges) == (["analytics.orders_load_2"], 0)
    with psycopg.connect(db) as connection:
        connection.execute("delete from analytics.orders where _load_id = 2 and id = 13")
    assert merge_all(db).left_out == ()
    assert query(db, "select * from penstock.left_out") == []
    assert leaves(db) == [(1, 10)]


def test_a_leaf_with_a_damaged_page_is_left_out_by_its_copy(db: str, postgres: Postgres) -> None:
    publish_loads(db, 7)
    ((path,),) = query(db, "select pg_relation_filepath('analytics.orders_load_3')")
    postgres.stop("fast")
    file = postgres.data / path
    content = bytearray(file.read_bytes())
    content[4000:4016] = b"\xff" * 16
    file.write_bytes(content)
    postgres.start()

    done = merge_all(db)

    assert [(left.leaf, left.reason) for left in done.left_out] == [
        ("analytics.orders_load_3", f'invalid page in block 0 of relation "{path}" (SQLSTATE XX001, DataCorrupted)')
    ]
    assert leaves(db) == [(1, 2), (2, 3), (3, 4), (4, 7), (7, 8)]


def test_maintain_exits_with_1_and_names_the_leaf_that_it_left_out(db: str, tmp_path: Path) -> None:
    damage_key(db, publish_loads(db, 11)[0])
    write_declaration(tmp_path, "topic", indexes=[["id"]])
    given = {"PENSTOCK_DB": db, "PENSTOCK_KAFKA": "localhost:1", "PENSTOCK_PIPELINES": str(tmp_path)}
    command = [str(BIN / "penstock"), "maintain", "orders", "--json"]
    done = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    (document,) = json.loads(done.stdout)["pipelines"]
    assert (document["leaves_before"], document["leaves_after"], document["merges"]) == (11, 2, 1)
    (left,) = document["left_out"]
    assert left["leaf"] == "analytics.orders_load_1"
    assert "analytics.orders_load_1 (loads 1 to 1) cannot be merged: could not create unique index" in done.stderr


def test_a_second_maintenance_of_a_pipeline_is_refused(db: str) -> None:
    publish_loads(db, 3)
    with psycopg.connect(db) as other:
        other.execute("select pg_advisory_lock(hashtextextended('penstock maintain ' || 1, 0))")
        with pytest.raises(FencedError, match="another process maintains the pipeline"):
            merge_all(db)
    assert merge_all(db).merges == 1


def test_a_pipeline_without_loads_needs_no_maintenance(db: str) -> None:
    assert merge_all(db).leaves_before == 0


def test_a_process_killed_between_the_copy_and_the_swap_leaves_nothing(db: str, tmp_path: Path) -> None:
    publish_loads(db, 10)  # the program itself merges ten
    write_declaration(tmp_path, "topic", indexes=[["id"]])
    command = [str(BIN / "penstock"), "maintain", "orders"]
    given = {"PENSTOCK_DB": db, "PENSTOCK_KAFKA": "localhost:1", "PENSTOCK_PIPELINES": str(tmp_path)}
    environment = {**os.environ, **given}
    with snapshot(db):
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            await_true(lambda: held_by_a_merge(db), "the merge has copied, and waits for the snapshot")
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    await_true(
        lambda: not query(db, "select 1 from pg_stat_activity where application_name = 'penstock maintain'"),
        "PostgreSQL has noticed",
    )
    assert len(leaves(db)) == 10
    assert query(db, "select relname from pg_class where relname like 'orders_loads%%'") == []
    assert query(db, STRAY) == [("merge_1_10",)], "the table of the first transaction"
    done = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert '"leaves_before": 10, "leaves_after": 1, "merges": 1, "left_out": []' in done.stdout
    assert query(db, STRAY) == []
    assert query(db, COUNT) == [(100, 100)]


def test_all_rows_stay_accounted_for_through_merges_a_replay_and_a_rollback(
    db: str, kafka: Broker, make_topic: MakeTopic, spark: SparkSession
) -> None:
    account = Account(kafka.bootstrap, make_topic(2))
    loader = Loader(db, kafka.bootstrap, spark, declare(account.topic))
    loads = []
    for _ in range(3):
        account.send_orders(20, partition=0)
        account.send_orders(10, partition=1)
        loads.append(loader.load())
    before = loader.rows()

    with Watcher(db):
        assert merge_all(db, loader.pipeline).leaves_after == 1
        loader.backfill(ByOffsets((Span(0, 10, 30), Span(1, 5, 15))), replace=True)
        assert loader.rows() == before
    roll_back(db, loads[2], "ann", "wrong prices")
    assert loader.gaps() == [(0, 40, 60), (1, 20, 30)]
    undo_rollback(db, loads[2], "ann", "they were right")

    assert loader.rows() == before
    assert find_faults(db, account) == []
    assert loader.verify().faults == ()
    with psycopg.connect(db) as connection:
        connection.execute("update analytics.orders set id = -1 where _partition = 0 and _offset = 47")
    assert [fault.range for fault in loader.verify(share=0).faults] == [Range(0, 47, 48)]


def test_a_record_with_over_a_gigabyte_of_text_is_merged_and_verified(
    db: str, kafka: Broker, make_topic: MakeTopic, spark: SparkSession
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    columns = {**COLUMNS, "doc": {"type": "jsonb", "path": "$.doc"}}
    loader = Loader(db, kafka.bootstrap, spark, declare(account.topic, columns=columns))
    loads = []
    for number in range(3):
        wide = ",".join(["1e131071"] * 9000) if number == 1 else "1"
        account.send([f'{{"id": {number}, "doc": [{wide}]}}'.encode()])
        loads.append(loader.load())
    numbers = "select _offset, jsonb_array_length(doc) from analytics.orders order by 1"

    assert merge_all(db, loader.pipeline).leaves_after == 1
    assert loader.query(numbers) == [(0, 1), (1, 9000), (2, 1)]
    verified = loader.verify()
    assert (verified.faults, verified.rows_compared) == ((), 3)
    loader.backfill(ByOffsets((Span(0, 0, 2),)), replace=True)
    roll_back(db, loads[2], "ann", "wrong prices")
    undo_rollback(db, loads[2], "ann", "they were right")
    assert loader.query(numbers) == [(0, 1), (1, 9000), (2, 1)]
    assert loader.verify().faults == ()


def test_a_role_that_cannot_see_old_snapshots_merges_nothing_and_names_the_grant(db: str, admin_db: str) -> None:
    publish_loads(db, 2)
    with psycopg.connect(admin_db, autocommit=True) as admin:
        admin.execute("revoke pg_read_all_stats from penstock_loader")
        try:
            with snapshot(admin_db, "select count(*) from penstock.loads") as older:  # of another role than the loader
                publish_loads(db, 1, first=2)
                with pytest.raises(WrongUseError, match="grant pg_read_all_stats to penstock_loader"):
                    merge_all(db)
                assert older.execute("select count(*) from analytics.orders").fetchone() == (2 * ROWS,)
            with open_ledger(db) as connection:
                role = read_known(connection, [ORDERS])["orders"].role
                (finding,) = [each for each in _check_role(connection) if not each.fits]
            assert role is not None
            assert [each.level for each in judge_role(role)] == ["ok", "warning"]
            assert finding.told == "leaves are not merged: grant pg_read_all_stats to penstock_loader"
        finally:
            admin.execute("grant pg_read_all_stats to penstock_loader")
    assert merge_all(db).merges == 1
