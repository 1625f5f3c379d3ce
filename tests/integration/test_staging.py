"""Staging on a shared Spark session: rows, rejected records, tries of one task, drivers of one attempt."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.errors import FencedError, LogLostError, RejectedRecordError, StageError
from penstock.kafka.readers.native import open_group
from penstock.load import stage as staging
from penstock.load.task import stage_group
from penstock.model.ranges import cut_chunks
from penstock.target import row_stream
from penstock.target.assignment import make_assignment
from penstock.target.postgres import chunks as writing
from privileges import superuser
from producing import Account
from staging_loads import begin, fill_disk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from fix_kafka import MakeTopic
    from penstock.target.row_stream import WrittenChunk
    from penstock_stack.broker import Broker
    from staging_loads import Begun

REJECTED = [
    b"{",
    b"{}",
    b'{"id": 99999999999999999999}',
    b'{"id": 1, "note": "\\u0000"}',
    b'{"id": 1, "note": "\xff"}',
    None,
]
REASONS = ["bad_json", "missing_required", "out_of_range", "nul_byte", "bad_utf8", "null_value"]


@pytest.fixture
def account(kafka: Broker, make_topic: MakeTopic) -> Account:
    return Account(kafka.bootstrap, make_topic(2))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "LEAST_CHUNK", 100)
    monkeypatch.setattr(staging, "MOST_CHUNK", 100)
    monkeypatch.setattr(staging, "LEAST_GROUP", 100)


@pytest.fixture
def begun(db: str, account: Account) -> Begun:
    """Some 1,000 records with an aborted transaction among them, planned and begun."""
    account.send_orders(600)
    account.transact([b'{"id": -1}'] * 30, commit=False, partition=0)
    account.send_orders(400, first=600)
    return begin(db, account.bootstrap, account.topic)


def stage_tasks(begun: Begun) -> Iterator[WrittenChunk]:
    """Every chunk's task, one after the other, in this process."""
    assignment = make_assignment(begun.settings, begun.load(), begun.attempt)
    for chunk in cut_chunks(list(begun.load().ranges), 100):
        yield from stage_group(assignment, [chunk], open_group(assignment.source, [chunk]))


@pytest.mark.parametrize("reader", ["native", "spark"])
@pytest.mark.usefixtures("small_chunks")
def test_every_visible_record_is_staged_once_or_quarantined(
    spark: SparkSession, db: str, account: Account, reader: str
) -> None:
    account.send_orders(350)
    account.transact([b'{"id": -1}'] * 30, commit=False, partition=0)
    account.send(REJECTED, partition=1, key=b"\0k")
    account.transact([b'{"id": 7}'], commit=True, partition=1)
    begun = begin(db, account.bootstrap, account.topic, reader=reader)
    begun.stage(spark)
    load = begun.load()
    assert set(begun.staged()) | set(begun.quarantined()) == account.visible()
    assert (load.state, load.rows, load.quarantined) == ("staged", 351, 6)
    assert load.application_id == spark.sparkContext.applicationId
    assert (load.rows or 0) + (load.quarantined or 0) + (load.holes or 0) == sum(map(len, load.ranges))
    kept = begun.query('select reason, key, value from penstock.quarantine order by "offset"')
    assert [reason for reason, _, _ in kept] == REASONS
    assert [value for _, _, value in kept] == REJECTED
    assert {key for _, key, _ in kept} == {b"\0k"}


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_many_small_ranges_share_few_tasks_and_are_accounted_for_one_by_one(
    spark: SparkSession, db: str, kafka: Broker, make_topic: MakeTopic, reader: str
) -> None:
    account = Account(kafka.bootstrap, make_topic(60))
    for partition in range(60):
        account.send_orders(partition % 4 + 1, partition=partition)
    account.transact([b'{"id": -1}'] * 3, commit=False, partition=7)
    account.send([b"{"], partition=8)
    begun = begin(db, account.bootstrap, account.topic, reader=reader)
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    begun.stage(spark)

    jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup()) - before]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    assert sum(stage.numTasks for stage in stages if stage) == 1
    assert set(begun.staged()) | set(begun.quarantined()) == account.visible()
    counted = begun.query("select partition, rows, quarantined, holes from penstock.ranges order by partition")
    assert counted == [
        (n, n % 4 + 1, int(n == 8), 4 if n == 7 else 0) for n in range(60)
    ]  # the marker of the aborted transaction is a hole, too


def test_text_values_and_their_keys_are_staged(spark: SparkSession, db: str, account: Account) -> None:
    account.send(["grün".encode(), b"\xff"], partition=0, key=b"k")
    columns = {"body": {"type": "text", "path": "$"}}
    begun = begin(db, account.bootstrap, account.topic, value="text", key="text", columns=columns)
    begun.stage(spark)
    assert begun.query(f"select body, _key from penstock_stage.load_{begun.load_id}_1") == [("grün", "k")]
    assert begun.query("select reason from penstock.quarantine") == [("bad_utf8",)]


def test_byte_values_are_staged_as_they_are(spark: SparkSession, db: str, account: Account) -> None:
    account.send([b"\xff\0", b""], partition=0)
    columns = {"body": {"type": "bytea", "path": "$"}}
    begun = begin(db, account.bootstrap, account.topic, value="bytes", columns=columns)
    begun.stage(spark)
    staged = begun.query(f"select body from penstock_stage.load_{begun.load_id}_1 order by _offset")
    assert staged == [(b"\xff\0",), (b"",)]


def test_poison_stop_fails_the_load_and_names_the_record(spark: SparkSession, db: str, account: Account) -> None:
    account.send([b'{"id": 1}', b"{"], partition=0)
    begun = begin(db, account.bootstrap, account.topic, poison="stop")
    with pytest.raises(RejectedRecordError, match="offset 1 cannot become a row: bad_json"):
        begun.stage(spark)
    load = begun.load()
    assert (load.state, begun.staged(), begun.quarantined()) == ("failed", [], [])
    assert "bad_json" in (load.cause or "")


@pytest.mark.usefixtures("small_chunks")
def test_the_limit_of_the_quarantine_counts_the_whole_load(spark: SparkSession, db: str, account: Account) -> None:
    account.send([b"{"] * 60, partition=0)
    account.send([b"{"] * 60, partition=1)
    allowed = begin(db, account.bootstrap, account.topic, name="allowed", max_quarantined=120)
    allowed.stage(spark)
    assert allowed.load().quarantined == 120
    begun = begin(db, account.bootstrap, account.topic, max_quarantined=119)
    with pytest.raises(RejectedRecordError, match="120 records"):
        begun.stage(spark)
    assert begun.load().state == "failed"


def test_a_heavy_quarantine_is_written_in_turns_with_the_rows(
    monkeypatch: pytest.MonkeyPatch, db: str, account: Account
) -> None:
    monkeypatch.setattr(row_stream, "MAX_WAITING_BYTES", 1000)
    account.send([b"{", b'{"id": 1}'] * 2000, partition=0)
    begun = begin(db, account.bootstrap, account.topic)
    written = list(stage_tasks(begun))
    assert (sum(part.rows for part in written), sum(part.quarantined for part in written)) == (2000, 2000)
    assert set(begun.staged()) | set(begun.quarantined()) == account.visible()


def test_a_second_try_of_a_task_changes_nothing_and_says_so(begun: Begun) -> None:
    first = list(stage_tasks(begun))
    rows = begun.staged()
    second = list(stage_tasks(begun))
    assert all(part.won for part in first)
    assert second == [replace(part, won=False, first_hole=None) for part in first]
    assert begun.staged() == rows


def test_two_tries_of_a_task_at_once_leave_one(begun: Begun, account: Account) -> None:
    assignment = make_assignment(begun.settings, begun.load(), begun.attempt)
    chunks = cut_chunks(list(begun.load().ranges), 100)
    won: list[bool] = []

    def run() -> None:
        won.extend(
            written.won
            for chunk in chunks
            for written in stage_group(assignment, [chunk], open_group(assignment.source, [chunk]))
        )

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), sum(won)) == (3 * len(chunks), len(chunks))
    assert begun.staged() == sorted(account.visible())


@pytest.mark.usefixtures("small_chunks")
def test_two_drivers_of_one_attempt_leave_each_record_once(spark: SparkSession, begun: Begun, account: Account) -> None:
    failed: list[Exception] = []

    def run() -> None:
        try:
            begun.stage(spark)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert begun.load().state == "staged"
    assert begun.staged() == sorted(account.visible())


def test_staging_a_staged_load_again_changes_nothing(spark: SparkSession, begun: Begun) -> None:
    begun.stage(spark)
    before = begun.load()
    begun.stage(spark)
    assert begun.load() == before
    assert staging.begin_staging(begun.settings.db, begun.load_id) is None


def test_a_task_of_an_attempt_that_counts_no_more_writes_nothing(begun: Begun) -> None:
    tasks = stage_tasks(begun)
    next(tasks)
    rows = begun.staged()
    begun.begin_again()
    with pytest.raises(FencedError, match="attempt 1 is not the current attempt any more"):
        next(tasks)
    assert begun.staged() == rows


def test_a_task_fenced_in_the_middle_of_its_copy_writes_nothing(monkeypatch: pytest.MonkeyPatch, begun: Begun) -> None:
    settle = writing.settle

    def fence_then_settle(*args: Any) -> bool:
        begun.begin_again()
        return settle(*args)

    monkeypatch.setattr(writing, "settle", fence_then_settle)
    with pytest.raises(FencedError):
        next(stage_tasks(begun))
    assert begun.staged() == []


def test_a_losing_try_that_hangs_in_its_copy_does_not_block_the_load(
    spark: SparkSession, begun: Begun, account: Account
) -> None:
    name = writing.CONNECTION["application_name"]
    with psycopg.connect(begun.settings.db, application_name=name) as loser:
        table = f"penstock_stage.load_{begun.load_id}_1"
        loser.execute(f"insert into {table} (id, _load_id, _partition, _offset) values (1, {begun.load_id}, 0, 0)")
        begun.stage(spark)
        with pytest.raises(psycopg.OperationalError):
            loser.execute("select 1")
    assert begun.staged() == sorted(account.visible())


def test_a_driver_of_an_attempt_that_counts_no_more_is_fenced_off(spark: SparkSession, begun: Begun) -> None:
    begun.begin_again()
    with pytest.raises(FencedError, match="attempt 1 is no longer current"):
        begun.stage(spark)
    begun.stage(spark, attempt=2)
    assert begun.load().state == "staged"


def test_a_chunk_written_with_other_bounds_is_refused(spark: SparkSession, begun: Begun) -> None:
    next(stage_tasks(begun))
    with pytest.raises(StageError, match="another range"):
        begun.stage(spark)


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_the_error_of_a_task_reaches_the_driver_with_its_class_and_offsets(
    spark: SparkSession, db: str, account: Account, reader: str
) -> None:
    account.send_orders(50, partition=0)
    begun = begin(db, account.bootstrap, account.topic, reader=reader)
    account.delete_before(20)
    with pytest.raises(LogLostError, match=r"partition 0 offsets \[0, 20\).*starts at offset 20") as caught:
        begun.stage(spark)
    assert (caught.value.pipeline, caught.value.load) == ("orders", begun.load_id)
    assert not caught.value.may_retry
    assert begun.load().state == "failed"
    assert "starts at offset 20" in str(begun.load().cause)


@pytest.mark.usefixtures("small_chunks")
def test_progress_is_in_the_ledger_while_the_load_is_staged(begun: Begun) -> None:
    tasks = stage_tasks(begun)
    next(tasks)
    done = begun.query("select sum(done), sum(planned) from penstock.progress")
    assert done[0][0] in range(80, 101)
    assert done[0][1] == sum(map(len, begun.load().ranges))


def test_a_full_disk_is_the_error_although_the_tries_after_it_find_no_server(
    spark: SparkSession, begun: Begun, db: str
) -> None:
    fill_disk(db)

    with pytest.raises(StageError) as refused:
        begun.stage(spark)

    told = str(refused.value)
    assert "No space left on device (SQLSTATE 53100)" in told.partition(" Then: ")[0]
    assert "terminating connection" in told.partition(" Then: ")[2]
    assert "make room on the disk of PostgreSQL" in refused.value.next_step


def test_an_error_that_cannot_be_recorded_is_still_raised(spark: SparkSession, db: str, account: Account) -> None:
    account.send([b"{broken"])
    begun = begin(db, account.bootstrap, account.topic, poison="stop")
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(
            "create function public.fail_for_test() returns trigger language plpgsql as"
            " $$begin raise exception 'could not extend file' using errcode = '53100'; end$$;"
            "create trigger fail before update of state on penstock.load for each row execute function fail_for_test()"
        )

    with pytest.raises(RejectedRecordError, match=r"`poison: stop`.*Then: DiskFull: could not extend file"):
        begun.stage(spark)
