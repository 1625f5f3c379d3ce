"""Verification: changed, missing and extra rows are located, and a changed log is found."""

from __future__ import annotations

import random
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from confluent_kafka import TopicPartition
from psycopg import sql

from column_samples import SAMPLES
from compacting import COMPACTED, compacting
from declaring import COLUMNS, declare
from loading_process import await_true
from penstock.backfill.request import AllGaps, ByOffsets, Span
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.ledger.connection import connect, open_ledger
from penstock.model.ranges import Range
from penstock.status.pipelines import read_status
from penstock.target.postgres.rows import hash_row
from penstock.verify.rotation import Rotation
from penstock.verify.run import verify_pipeline
from plain_consumer import open_consumer, read_to_end
from privileges import superuser
from producing import Account, order

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from fix_loaders import Start
    from penstock.model.health import Health
    from penstock.verify.faults import Fault
    from penstock_stack.broker import Broker
    from whole_loads import Loader, MakeLoader


def list_places(faults: tuple[Fault, ...]) -> list[tuple[str, int, int, int]]:
    return [
        (fault.kind, fault.range.partition, fault.range.from_offset, fault.range.until_offset)
        for fault in faults
        if fault.range
    ]


def tamper(loader: Loader, statement: str) -> None:
    """Change rows or the ledger without Penstock."""
    with psycopg.connect(superuser(loader.db)) as connection:
        assert connection.execute(statement.encode()).rowcount > 0


def test_all_loads_are_verified_after_a_replay_a_rollback_and_a_backfill(start: Start) -> None:
    account, loader = start(2, key="text")
    account.send_orders(60)
    account.transact([order(number) for number in range(10)], commit=False, partition=1)
    account.send([b"no JSON", None, b"{}"])
    loader.load()
    account.send_orders(40)
    second = loader.load()
    loader.backfill(ByOffsets((Span(0, 5, 25),)), replace=True, per_load=10)
    account.send_orders(10)
    third = loader.load()
    roll_back(loader.db, third, "ann", "a try")
    undo_rollback(loader.db, third, "ann", "not so")
    roll_back(loader.db, second, "ann", "another")
    loader.backfill(AllGaps())

    verified = loader.verify()

    assert verified.faults == ()
    assert verified.rows == len(loader.rows())
    assert verified.chunks == verified.chunks_held == verified.chunks_reread > 4
    assert verified.rows_compared == verified.rows, "replaced offsets are compared in one load only"
    assert loader.query("select actor, share, rows, faults, rows_compared from penstock.verifications") == [
        ("tester", 1.0, verified.rows, 0, verified.rows)
    ]
    assert loader.query("select count(*) from penstock.reread") == [(0,)]
    assert verified.holes == {"aborted": 10, "marker": 1}


def test_chosen_offsets_are_read_again_and_all_rows_are_counted(start: Start) -> None:
    account, loader = start(2)
    for _ in range(3):
        account.send_orders(20, partition=0)
        account.send_orders(20, partition=1)
        loader.load()
    changed = "set note = 'x' where _partition = 1 and _offset = 30"
    tamper(loader, f"update analytics.orders {changed}")

    verified = loader.verify(ranges=[Range(0, 25, 41), Range(1, 5, 6)])

    assert (verified.chunks_held, verified.chunks_reread, verified.rows_compared) == (6, 3, 60)
    assert list_places(verified.faults) == [("rows_changed", 1, 30, 31)], "the fingerprints of all rows are compared"
    assert loader.query("select share from penstock.verifications") == [(0.5,)]
    assert loader.verify(ranges=[Range(7, 0, 1)]).chunks_reread == 0


def test_a_daily_verification_counts_new_and_moved_loads_and_a_share_of_the_others(start: Start) -> None:
    account, loader = start()
    first, second, third = (loads_orders(account, loader, 20) for _ in range(3))
    rotation = Rotation(30, at_least=0)
    assert (loader.verify(0, rotation=rotation).rows, loader.verify(0).rows) == (60, 60)

    fourth = loads_orders(account, loader, 5)
    verified = loader.verify(0, rotation=rotation)
    assert (verified.rows, verified.loads_skipped, verified.faults) == (5, 3, ())
    assert "5 rows in 1 ranges counted (3 loads were counted before)" in verified.summary
    assert loader.verify(0, rotation=rotation).rows == 20, "nothing is new: the oldest leaf takes its turn"

    # A row of a load whose turn comes later; the load is due at the end of the days.
    tamper(loader, f"update analytics.orders set note = 'x' where _load_id = {second} and _offset = 27")
    tamper(
        loader, f"update penstock.load set counted_at = now() - interval '5 days' where load_id in ({first}, {third})"
    )
    assert loader.verify(0, rotation=rotation).faults == ()
    tamper(loader, f"update penstock.load set counted_at = now() - interval '29 days' where load_id = {second}")
    for _ in range(2):  # a fault is found again until the row is right
        assert list_places(loader.verify(0, rotation=rotation).faults) == [("rows_changed", 0, 27, 28)]
        assert read_health(loader).state == "faulty"

    loader.backfill(ByOffsets((Span(0, 27, 28),)), replace=True)
    verified = loader.verify(0, rotation=rotation)
    assert (verified.faults, verified.rows, verified.loads_skipped) == ((), 20, 3), (
        "the replay and the rest of its load"
    )
    roll_back(loader.db, fourth, "ann", "a try")
    undo_rollback(loader.db, fourth, "ann", "not so")
    assert loader.verify(0, rotation=rotation).rows == 5
    assert loader.query(
        "select rows, loads_skipped from penstock.verifications order by verification_id desc limit 1"
    ) == [(5, 4)]
    assert loader.verify(0).loads_skipped == 0


def test_a_missing_row_is_a_hole_of_the_next_day_also_where_no_row_is_counted(start: Start) -> None:
    account, loader = start()
    first, second = (loads_orders(account, loader, 20) for _ in range(2))
    assert [loader.verify(0).faults for _ in range(2)] == [(), ()]
    tamper(loader, f"update penstock.load set counted_at = now() - interval '5 days' where load_id = {second}")
    tamper(loader, "delete from analytics.orders where _offset = 7")
    tamper(loader, f"update penstock.coverage set rows = rows - 1, holes = holes + 1 where load_id = {first}")

    verified = loader.verify(0, rotation=Rotation(30, at_least=0))

    assert (verified.rows, verified.loads_skipped) == (20, 1), "the second load is counted"
    assert [(fault.kind, fault.load) for fault in verified.faults] == [("hole", first)]
    assert list_places(verified.faults) == [("hole", 0, 7, 8)]


def test_a_fault_is_kept_and_told_while_another_session_changes_another_load(start: Start) -> None:
    account, loader = start()
    _, second = (loads_orders(account, loader, 20) for _ in range(2))
    tamper(loader, "update analytics.orders set note = 'x' where _offset = 7")
    with psycopg.connect(loader.db) as changing:
        changing.execute("select from penstock.load where load_id = %s for no key update", [second])
        assert list_places(loader.verify(0).faults) == [("rows_changed", 0, 7, 8)]
    assert read_health(loader).state == "faulty"
    assert loader.query("select load_id from penstock.load where counted_at is not null") == [], (
        "neither is passed over"
    )


def loads_orders(account: Account, loader: Loader, number: int) -> int:
    account.send_orders(number)
    return loader.load()


def read_health(loader: Loader) -> Health:
    """The pipeline's health in `penstock status`."""
    with open_ledger(loader.db) as connection:
        (status,) = read_status(connection, loader.settings.kafka, [loader.pipeline])
    return status.health


def test_a_changed_a_missing_and_an_extra_row_are_located_to_their_offsets(start: Start) -> None:
    account, loader = start(2)
    account.send_orders(300, partition=0)
    account.send_orders(300, partition=1, first=300)
    account.transact([order(7)], commit=False, partition=1)
    loader.load()
    tamper(loader, "update analytics.orders set id = id + 1 where _partition = 0 and _offset = 17")
    tamper(loader, "delete from analytics.orders where _partition = 0 and _offset = 230")
    tamper(
        loader,
        "insert into analytics.orders select id, note, _load_id, _partition, 300, _timestamp from analytics.orders"
        " where _partition = 1 and _offset = 3",
    )

    verified = loader.verify(share=0)

    assert list_places(verified.faults) == [
        ("rows_changed", 0, 17, 18),
        ("rows_missing", 0, 230, 231),
        ("rows_too_many", 1, 300, 301),
    ]
    assert loader.query("select kind, partition, from_offset from penstock.faults order by from_offset") == [
        ("rows_changed", 0, 17), ("rows_missing", 0, 230), ("rows_too_many", 1, 300),
    ]  # fmt: skip

    assert read_health(loader).state == "faulty"

    loader.backfill(ByOffsets((Span(0, 17, 18), Span(0, 230, 231), Span(1, 300, 301))), replace=True)
    assert loader.verify(share=0).faults == (), "a replay of the faulty offsets fixes them"
    assert read_health(loader).state == "ok"


def test_a_replay_of_other_offsets_does_not_hide_a_changed_row(start: Start) -> None:
    account, loader = start()
    account.send_orders(100)
    loader.load()
    tamper(loader, "update analytics.orders set id = id + 1 where _offset = 17")
    loader.backfill(ByOffsets((Span(0, 40, 60),)), replace=True)
    assert list_places(loader.verify(share=0).faults) == [("rows_changed", 0, 17, 18)]
    loader.backfill(ByOffsets((Span(0, 10, 20),)), replace=True)
    assert loader.verify(share=0).faults == ()


def test_changed_rows_inside_and_outside_a_replay_are_found_until_they_are_fixed(start: Start) -> None:
    account, loader = start()
    account.send_orders(100)
    first = loader.load()
    right = loader.rows()
    tamper(loader, "update analytics.orders set id = id + 1000 where _offset in (50, 70)")
    loader.backfill(ByOffsets((Span(0, 40, 60),)), replace=True)
    changed = [("rows_changed", 0, 70, 71)]
    assert list_places(loader.verify(share=0).faults) == changed, "the fault is in one of two ranges"

    loader.backfill(ByOffsets((Span(0, 0, 40),)), replace=True)
    assert list_places(loader.verify(share=0).faults) == changed, "the other range was replaced"

    tamper(loader, "update analytics.orders set id = id - 1000 where _offset = 70")
    assert loader.rows() == right
    assert loader.verify(share=0).faults == (), "a row that was fixed by hand has the right fingerprint"
    tamper(loader, "update analytics.orders set id = id + 1000 where _offset = 90")
    assert list_places(loader.verify(share=0).faults) == [("rows_changed", 0, 90, 91)]
    loader.backfill(ByOffsets((Span(0, 90, 91),)), replace=True)
    assert loader.verify(share=0).faults == (), "a row that was fixed by a replay has the right fingerprint"
    assert first in {load for *_, load in loader.covered()}


def test_an_extra_and_a_missing_row_outside_a_replay_are_found_until_they_are_fixed(start: Start) -> None:
    account, loader = start()
    account.send_orders(50)
    account.transact([order(7)], commit=False)  # [50], marker 51
    account.send_orders(50, first=52)
    loader.load()
    right = loader.rows()
    tamper(
        loader,
        "insert into analytics.orders select id, note, _load_id, _partition, 50, _timestamp from analytics.orders"
        " where _offset = 3",
    )
    tamper(loader, "delete from analytics.orders where _offset = 90")
    loader.backfill(ByOffsets((Span(0, 10, 20), Span(0, 70, 80))), replace=True)
    wrong = [("rows_too_many", 0, 50, 51), ("rows_missing", 0, 90, 91)]
    assert [each for each in list_places(loader.verify(share=0).faults) if each[0] != "hole"] == wrong

    loader.backfill(ByOffsets((Span(0, 50, 51), Span(0, 90, 91))), replace=True)
    assert loader.verify().faults == ()
    assert loader.rows() == right


def test_a_replay_with_another_column_fixes_its_rows_and_causes_no_fault(start: Start) -> None:
    account, loader = start()
    account.send_orders(100)
    loader.load()
    tamper(loader, "update analytics.orders set id = id + 1000 where _offset = 50")
    loader.pipeline = declare(account.topic, columns={**COLUMNS, "more": {"type": "text", "path": "$.more"}})
    loader.backfill(ByOffsets((Span(0, 50, 51),)), replace=True)
    assert loader.verify().faults == ()


def test_a_row_outside_the_ranges_of_its_load_is_found_with_its_offset(start: Start) -> None:
    account, loader = start()
    account.send_orders(10)
    loader.load()
    account.send_orders(10, first=10)
    second = loader.load()
    tamper(loader, f"update analytics.orders set _load_id = {second} where _offset = 3")
    assert sorted(list_places(loader.verify(share=0).faults)) == [("rows_missing", 0, 3, 4), ("rows_outside", 0, 3, 4)]

    page = (Path(__file__).parents[2] / "docs/how-to/prove-what-is-there.md").read_text(encoding="utf-8")
    (deleting,) = re.findall(r"```sql\n(delete.*?)```", page, re.DOTALL)
    tamper(loader, deleting)
    loader.backfill(ByOffsets((Span(0, 3, 4),)), replace=True)
    assert loader.verify(share=0).faults == (), "the statement of the page removes the row"


@pytest.mark.parametrize("seed", [1, 2])
def test_exactly_the_wrong_rows_are_found_after_random_changes_and_replays(start: Start, seed: int) -> None:
    account, loader = start()
    account.send_orders(60)
    account.transact([order(7)] * 3, commit=False)  # [60, 63), marker 63
    account.send_orders(60, first=64)
    loader.load()
    with psycopg.connect(loader.db) as connection:
        connection.execute("create table truth as select * from analytics.orders")
    chance = random.Random(seed)
    for _ in range(12):
        offset = chance.randrange(124)
        action = chance.choice(["change", "change", "delete", "insert", "fix", "replay", "replay"])
        if action == "replay":
            first = chance.randrange(124)
            loader.backfill(ByOffsets((Span(0, first, chance.randrange(first + 1, 125)),)), replace=True)
        else:
            with psycopg.connect(loader.db) as connection:
                for statement in CHANGES[action]:
                    connection.execute(statement.encode(), {"offset": offset})
        faults = [fault for fault in loader.verify(share=0).faults if fault.kind != "hole"]
        found = {fault.range.from_offset for fault in faults if fault.range and len(fault.range) == 1}
        assert found == {row[0] for row in loader.query(WRONG)}, f"seed {seed}, after {action} at {offset}: {faults}"
        assert len(faults) == len(found), f"seed {seed}, after {action} at {offset}: {faults}"


# Changes by hand. An inserted row has the number of the load that covers its offset.
_OF_OFFSET = "select c.load_id from penstock.covered c where %(offset)s >= from_offset and %(offset)s < until_offset"
_AT_OFFSET = "where _offset = %(offset)s"
_DELETE = f"delete from analytics.orders {_AT_OFFSET}"
CHANGES = {
    "change": [f"update analytics.orders set id = id + 1000 {_AT_OFFSET}"],
    "delete": [_DELETE],
    "insert": [
        _DELETE,
        f"insert into analytics.orders values (5, 'five', ({_OF_OFFSET}), 0, %(offset)s, now())",
    ],
    "fix": [
        _DELETE,
        f"insert into analytics.orders select id, note, ({_OF_OFFSET}), 0, _offset, _timestamp from truth {_AT_OFFSET}",
    ],
}
WRONG = """
select coalesce(o._offset, t._offset) from analytics.orders o full join truth t using (_offset)
where (o.id, o.note, o._timestamp) is distinct from (t.id, t.note, t._timestamp)
"""


def test_a_wrong_fingerprint_in_the_ledger_is_a_fault_of_the_ledger(start: Start) -> None:
    account, loader = start()
    account.send_orders(10)
    loader.load()
    tamper(loader, "update penstock.coverage set row_hash = row_hash + 1")

    [fault] = loader.verify(share=0).faults
    assert (fault.kind, list_places((fault,))) == ("ledger", [("ledger", 0, 0, 10)])
    assert "the rows equal the records in the log" in fault.message
    loader.backfill(ByOffsets((Span(0, 0, 10),)), replace=True)
    assert loader.verify(share=0).faults == ()


def test_two_exchanged_values_are_found(start: Start) -> None:
    account, loader = start()
    account.send_orders(50)
    loader.load()
    tamper(
        loader,
        "update analytics.orders t set id = o.id, note = o.note from analytics.orders o"
        " where (t._offset = 3 and o._offset = 4) or (t._offset = 4 and o._offset = 3)",
    )
    assert list_places(loader.verify(share=0).faults) == [("rows_changed", 0, 3, 4), ("rows_changed", 0, 4, 5)]


def test_a_changed_row_is_located_to_its_range_after_retention(start: Start) -> None:
    account, loader = start()
    account.send_orders(100)
    loader.load()
    account.send_orders(100, first=100)
    loader.load()
    account.delete_before(150)
    tamper(loader, "update analytics.orders set note = 'x' where _offset in (20, 120, 180)")

    verified = loader.verify()

    assert list_places(verified.faults) == [("rows_changed", 0, 0, 100), ("rows_changed", 0, 180, 181)]
    assert (verified.chunks, verified.chunks_held) == (2, 0), "the log holds a part of a chunk only"


def test_the_other_reader_finds_other_records_in_the_log(start: Start) -> None:
    account, loader = start(2)
    account.send_orders(40, partition=0)
    account.send_orders(40, partition=1)
    loader.load()
    # A test cannot change the log, but it can change the recorded fingerprint. The two must be equal.
    tamper(loader, "update penstock.stage_task set log_hash = log_hash + 1 where partition = 1")

    [fault] = loader.verify().faults

    assert list_places((fault,)) == [("log_changed", 1, 0, 40)]
    assert "the two readers do not agree" in fault.message

    assert loader.verify(share=0).faults == (), "the log was not read"
    assert read_health(loader).state == "faulty", "a verification that did not read the log removes no fault of the log"
    tamper(loader, "update penstock.stage_task set log_hash = log_hash - 1 where partition = 1")
    assert loader.verify().faults == ()
    assert read_health(loader).state == "ok"


def test_compacted_records_are_no_fault_and_a_changed_row_beside_them_is_located(
    kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader
) -> None:
    account = Account(kafka.bootstrap, make_topic(1, **COMPACTED))
    loader = make_loader(account.topic)
    account.send((order(number) for number in range(60)), key=b"the same")
    for number in range(60, 65):
        account.send([order(number)], key=b"%d" % number)
    account.send([None], key=b"64")
    loader.load()
    with compacting(kafka, account.topic):
        await_true(lambda: read_offsets_again(account) == [59, 60, 61, 62, 63], "the log cleaner has run")

    verified = loader.verify()
    assert verified.faults == ()
    assert verified.chunks_reread == 1

    tamper(loader, "update analytics.orders set note = 'x' where _offset = 62")
    assert list_places(loader.verify().faults) == [("rows_changed", 0, 62, 63)]


def read_offsets_again(account: Account) -> list[int]:
    """The offsets up to 65 that the log still has. A new record lets Kafka compact the records before it."""
    account.send([b"{}"], key=b"another")
    consumer = open_consumer(account.bootstrap, "seen")
    with closing(consumer):
        consumer.assign([TopicPartition(account.topic, 0, 0)])
        return [record.offset() for record in read_to_end(consumer) if record.offset() <= 65]


def test_the_native_reader_reads_the_chunks_of_spark_again(start: Start) -> None:
    account, loader = start(reader="spark")
    account.send_orders(30)
    account.transact([order(number) for number in range(5)], commit=True)
    loader.load()

    def never(*_: object) -> None:
        raise AssertionError("Spark has loaded the chunk, so another reader must read it again")

    verified = verify_pipeline(loader.settings, loader.pipeline, "tester", 1.0, never)
    assert verified is not None
    assert (verified.faults, verified.chunks_reread) == ((), 1)
    tamper(loader, "update penstock.stage_task set log_hash = log_hash + 1")
    verified = verify_pipeline(loader.settings, loader.pipeline, "tester", 1.0, never)
    assert verified is not None
    assert [fault.kind for fault in verified.faults] == ["log_changed"]


# With `align_ledger`, rows and both fingerprints are as after a COPY that stored the text in a wrong encoding.
MOJIBAKE = (
    "update analytics.orders set note = convert_from(convert_to(note, 'UTF8'), 'LATIN1') where note ~ '[^\\x01-\\x7f]'"
)


def align_ledger(loader: Loader) -> None:
    """Store the fingerprints of the target's rows in the ledger, as if the rows had been staged so."""
    hashed = hash_row(loader.pipeline).as_string(None)
    tamper(
        loader,
        f"update penstock.coverage c set row_hash = (select coalesce(sum({hashed}), 0) from analytics.orders t"
        " where t._load_id = c.load_id and t._partition = c.partition and c.offsets @> t._offset)",
    )


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_text_that_a_copy_stored_in_another_encoding_is_located_to_its_offset(start: Start, reader: str) -> None:
    account, loader = start(2, reader=reader)
    account.send_orders(30, partition=0)
    account.send([b'{"id": 1, "note": "Z\xc3\xbcrich"}', b"no JSON", b'{"id": 2, "note": "plain"}'], partition=1)
    loader.load()
    tamper(loader, MOJIBAKE)
    align_ledger(loader)
    assert loader.query("select note from analytics.orders where _partition = 1 and _offset = 0") == [("ZÃ¼rich",)]
    assert loader.verify(share=0).faults == (), "neither fingerprint shows it"

    verified = loader.verify()

    assert list_places(verified.faults) == [("rows_changed", 1, 0, 1)]
    assert "The records are those that were loaded" in verified.faults[0].message
    assert verified.rows_compared == 32
    assert not any("who changed them" in step for step in verified.next_steps)
    loader.backfill(ByOffsets((Span(1, 0, 1),)), replace=True)
    assert loader.verify().faults == (), "a replay stores the right value"


def test_a_row_that_was_located_by_its_fingerprint_is_reported_once(start: Start) -> None:
    account, loader = start()
    account.send_orders(50)
    loader.load()
    tamper(loader, "update analytics.orders set note = 'x' where _offset = 7")
    (fault,) = loader.verify().faults
    assert (fault.kind, fault.message) == ("rows_changed", "changed row: the record in the log gives other values.")


def test_records_that_other_rules_decode_differently_are_located(start: Start) -> None:
    account, loader = start()
    account.send([order(1), b"no JSON", order(3)])
    load = loader.load()
    # As if the load had rejected the record at 0, and accepted the record at 1.
    tamper(loader, "delete from analytics.orders where _offset = 0")
    tamper(loader, f"insert into analytics.orders values (9, 'x', {load}, 0, 1, now())")
    tamper(loader, 'update penstock.quarantine set "offset" = 0')
    align_ledger(loader)
    assert loader.verify(share=0).faults == ()

    found = {(fault.kind, fault.range.from_offset) for fault in loader.verify().faults if fault.range}

    assert found == {("rows_missing", 0), ("rows_too_many", 1), ("quarantine", 0), ("quarantine", 1)}


def test_a_record_whose_row_the_server_refused_is_not_compared(start: Start) -> None:
    account, loader = start()
    account.send_orders(20)
    loader.load()
    tamper(loader, "delete from analytics.orders where _offset = 4")
    tamper(
        loader,
        'insert into penstock.quarantine (load_id, attempt, partition, "offset", reason, detail)'
        " select load_id, attempt, 0, 4, 'refused_by_database', 'too big' from penstock.load",
    )
    for statement in ("penstock.coverage", "penstock.load", "penstock.load_range", "penstock.stage_task"):
        tamper(loader, f"update {statement} set rows = rows - 1, quarantined = quarantined + 1")
    align_ledger(loader)
    verified = loader.verify()
    assert (verified.faults, verified.rows_compared) == ((), 19)
    tamper(loader, "update analytics.orders set note = 'x' where _offset = 7")
    assert list_places(loader.verify().faults) == [("rows_changed", 0, 7, 8)]


def test_each_load_is_compared_by_its_own_declaration(start: Start) -> None:
    account, loader = start()
    account.send_orders(30)
    loader.load()
    loader.pipeline = declare(account.topic, columns={**COLUMNS, "more": {"type": "jsonb", "path": "$.more"}})
    account.send([b'{"id": 1, "more": {"a": "\xc3\xbc"}}'] * 20)
    loader.load()
    verified = loader.verify()
    assert (verified.faults, verified.rows_compared) == ((), 50)
    tamper(loader, "update analytics.orders set more = '{}' where _offset = 40")
    align_ledger(loader)
    assert list_places(loader.verify().faults)[-1] == ("rows_changed", 0, 40, 41)


def test_a_ledger_that_does_not_add_up_is_found(start: Start) -> None:
    account, loader = start()
    account.send_orders(30)
    load = loader.load()
    tamper(loader, "update penstock.position set position = position + 5")
    tamper(loader, "update penstock.coverage set offsets = int8range(0, 29), rows = 29")

    faults = loader.verify(share=0).faults

    assert ("ledger", 0, 29, 35) not in list_places(faults), "offsets that nothing covers below the position are gaps"
    assert {fault.kind for fault in faults} == {"ledger", "rows_outside"}
    tamper(loader, "update penstock.load set state = 'superseded'")
    tamper(loader, "update penstock.position set position = 20")
    messages = " ".join(str(fault) for fault in loader.verify(share=0).faults)
    assert "beyond the position 20" in messages
    assert "the load is superseded, and covers partition 0 offsets [0,29)" in messages
    assert "counted as" not in messages
    tamper(loader, "update penstock.position set covered = covered + 1")
    [miscounted] = [fault for fault in loader.verify(share=0).faults if "counted as" in fault.message]
    assert "counted as 30 covered offsets, and 29 are covered" in miscounted.message
    assert load


@pytest.mark.parametrize(
    ("statement", "message", "word"),
    [
        ("alter table analytics.orders drop column note", "has no column note any more", "faulty"),
        ("drop table analytics.orders", "_load_id, _offset, _partition, _timestamp, id, note any more", "bad_target"),
    ],
)
def test_a_missing_table_or_column_is_a_fault(start: Start, statement: str, message: str, word: str) -> None:
    account, loader = start()
    account.send_orders(10)
    loader.load()
    with connect(loader.db) as connection:
        connection.execute(statement.encode())

    [fault] = loader.verify().faults
    assert message in fault.message
    assert read_health(loader).state == word


def test_rows_of_a_load_that_was_never_published_are_found(start: Start) -> None:
    account, loader = start()
    account.send_orders(10)
    load = loader.load()
    with connect(loader.db) as connection:
        bounds = f"from ({load + 5}) to ({load + 6})"
        connection.execute(f"create table analytics.stray partition of analytics.orders for values {bounds}".encode())
    tamper(
        loader,
        f"insert into analytics.orders select id, note, {load + 5}, _partition, _offset, _timestamp"
        " from analytics.orders where _offset < 3",
    )
    [fault] = loader.verify(share=0).faults
    assert (fault.kind, fault.message) == ("rows_outside", f"3 rows name load {load + 5}, which covers nothing.")


def test_a_missing_quarantined_record_is_found(start: Start) -> None:
    account, loader = start()
    account.send([b"no JSON", order(1), b"nor this"])
    loader.load()
    tamper(loader, 'delete from penstock.quarantine where "offset" = 2')
    assert list_places(loader.verify(share=0).faults) == [("quarantine", 0, 2, 3)]


def test_the_hash_of_each_type_differs_by_value_null_and_column(db: str) -> None:
    types = {f"c{place}": type_ for place, type_ in enumerate(SAMPLES)}
    pipeline = declare("topic", columns={name: {"type": type_, "path": f"$.{name}"} for name, type_ in types.items()})
    with connect(db) as connection:
        described = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        connection.execute(f"create temporary table t (_offset bigint, _timestamp timestamptz, {described})".encode())
        hashed = sql.SQL("select {} from t").format(hash_row(pipeline))

        def fingerprint(**changed: str | None) -> int:
            values = {f"c{place}": sample.value for place, sample in enumerate(SAMPLES.values())} | changed
            connection.execute("truncate t")
            row = ", ".join("null" if value is None else f"'{value}'" for value in values.values())
            connection.execute(f"insert into t values (7, now(), {row})".encode())
            found = connection.execute(hashed).fetchone()
            assert found
            return int(found[0])

        same = fingerprint()
        assert fingerprint() == same
        assert fingerprint(c0="1", c1="2") != fingerprint(c0="2", c1="1"), "smallint and integer change places"
        for place, sample in enumerate(SAMPLES.values()):
            name = f"c{place}"
            assert len({same, fingerprint(**{name: sample.other}), fingerprint(**{name: None})}) == 3, types[name]
