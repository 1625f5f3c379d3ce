"""Proof at any time: rows that were changed, are missing or too many are located, and a log that changed is found."""

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

from compacting import COMPACTED, compacting
from declaring import COLUMNS, declare
from loading_process import await_true
from penstock.backfill.request import AllGaps, ByOffsets, Span
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.ledger.connection import connect, open_ledger
from penstock.status.pipelines import read_status
from penstock.target.postgres.rows import hash_row
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


def tell(faults: tuple[Fault, ...]) -> list[tuple[str, int, int, int]]:
    return [
        (fault.kind, fault.range.partition, fault.range.from_offset, fault.range.until_offset)
        for fault in faults
        if fault.range
    ]


def tamper(loader: Loader, statement: str) -> None:
    """Change something behind Penstock's back."""
    with psycopg.connect(superuser(loader.db)) as connection:
        assert connection.execute(statement.encode()).rowcount > 0


def test_what_was_loaded_is_proven_by_the_other_reader_whatever_became_of_it_since(start: Start) -> None:
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
    assert verified.rows_compared == verified.rows, "of what was replaced, only what its load still covers"
    assert loader.query("select actor, share, rows, faults, rows_compared from penstock.verifications") == [
        ("tester", 1.0, verified.rows, 0, verified.rows)
    ]
    assert loader.query("select count(*) from penstock.reread") == [(0,)]
    assert verified.holes == {"aborted": 10, "marker": 1}


def read_health(loader: Loader) -> Health:
    """What `penstock status` says of the pipeline."""
    with open_ledger(loader.db) as connection:
        (status,) = read_status(connection, loader.settings.kafka, [loader.pipeline])
    return status.health


def test_a_row_changed_one_missing_and_one_too_many_are_located_to_their_offsets(start: Start) -> None:
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

    assert tell(verified.faults) == [
        ("rows_changed", 0, 17, 18),
        ("rows_missing", 0, 230, 231),
        ("rows_too_many", 1, 300, 301),
    ]
    assert loader.query("select kind, partition, from_offset from penstock.faults order by from_offset") == [
        ("rows_changed", 0, 17), ("rows_missing", 0, 230), ("rows_too_many", 1, 300),
    ]  # fmt: skip

    assert read_health(loader).state == "faulty"

    loader.backfill(ByOffsets((Span(0, 17, 18), Span(0, 230, 231), Span(1, 300, 301))), replace=True)
    assert loader.verify(share=0).faults == (), "a replay of the faulty offsets mends them"
    assert read_health(loader).state == "ok"


def test_a_replay_beside_a_changed_row_does_not_make_it_fit(start: Start) -> None:
    account, loader = start()
    account.send_orders(100)
    loader.load()
    tamper(loader, "update analytics.orders set id = id + 1 where _offset = 17")
    loader.backfill(ByOffsets((Span(0, 40, 60),)), replace=True)
    assert tell(loader.verify(share=0).faults) == [("rows_changed", 0, 17, 18)]
    loader.backfill(ByOffsets((Span(0, 10, 20),)), replace=True)
    assert loader.verify(share=0).faults == ()


def test_rows_changed_beside_and_within_what_is_replaced_stay_found_until_they_are_mended(start: Start) -> None:
    account, loader = start()
    account.send_orders(100)
    first = loader.load()
    right = loader.rows()
    tamper(loader, "update analytics.orders set id = id + 1000 where _offset in (50, 70)")
    loader.backfill(ByOffsets((Span(0, 40, 60),)), replace=True)
    changed = [("rows_changed", 0, 70, 71)]
    assert tell(loader.verify(share=0).faults) == changed, "whichever of two ranges the replay has left"

    loader.backfill(ByOffsets((Span(0, 0, 40),)), replace=True)
    assert tell(loader.verify(share=0).faults) == changed, "though the range it was held against is replaced"

    tamper(loader, "update analytics.orders set id = id - 1000 where _offset = 70")
    assert loader.rows() == right
    assert loader.verify(share=0).faults == (), "what was mended by hand fits again"
    tamper(loader, "update analytics.orders set id = id + 1000 where _offset = 90")
    assert tell(loader.verify(share=0).faults) == [("rows_changed", 0, 90, 91)]
    loader.backfill(ByOffsets((Span(0, 90, 91),)), replace=True)
    assert loader.verify(share=0).faults == (), "what was mended by a replay fits, too"
    assert first in {load for *_, load in loader.covered()}


def test_a_row_too_many_and_one_too_few_beside_a_replay_stay_found_until_they_are_mended(start: Start) -> None:
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
    assert [each for each in tell(loader.verify(share=0).faults) if each[0] != "hole"] == wrong

    loader.backfill(ByOffsets((Span(0, 50, 51), Span(0, 90, 91))), replace=True)
    assert loader.verify().faults == ()
    assert loader.rows() == right


def test_a_replay_by_a_declaration_with_another_column_mends_what_it_replaces_and_blames_nothing_else(
    start: Start,
) -> None:
    account, loader = start()
    account.send_orders(100)
    loader.load()
    tamper(loader, "update analytics.orders set id = id + 1000 where _offset = 50")
    loader.pipeline = declare(account.topic, columns={**COLUMNS, "more": {"type": "text", "path": "$.more"}})
    loader.backfill(ByOffsets((Span(0, 50, 51),)), replace=True)
    assert loader.verify().faults == ()


def test_a_row_outside_the_ranges_of_its_load_is_told_with_its_offset(start: Start) -> None:
    account, loader = start()
    account.send_orders(10)
    loader.load()
    account.send_orders(10, first=10)
    second = loader.load()
    tamper(loader, f"update analytics.orders set _load_id = {second} where _offset = 3")
    assert sorted(tell(loader.verify(share=0).faults)) == [("rows_missing", 0, 3, 4), ("rows_outside", 0, 3, 4)]

    page = (Path(__file__).parents[2] / "docs/how-to/prove-what-is-there.md").read_text(encoding="utf-8")
    (deleting,) = re.findall(r"```sql\n(delete.*?)```", page, re.DOTALL)
    tamper(loader, deleting)
    loader.backfill(ByOffsets((Span(0, 3, 4),)), replace=True)
    assert loader.verify(share=0).faults == (), "as the page says"


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_changed_replayed_and_mended_just_the_rows_that_are_wrong_are_found(
    start: Start, seed: int
) -> None:
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
        what = chance.choice(["change", "change", "delete", "insert", "mend", "replay", "replay"])
        if what == "replay":
            first = chance.randrange(124)
            loader.backfill(ByOffsets((Span(0, first, chance.randrange(first + 1, 125)),)), replace=True)
        else:
            with psycopg.connect(loader.db) as connection:
                for statement in MEDDLING[what]:
                    connection.execute(statement.encode(), {"offset": offset})
        faults = [fault for fault in loader.verify(share=0).faults if fault.kind != "hole"]
        found = {fault.range.from_offset for fault in faults if fault.range and len(fault.range) == 1}
        assert found == {row[0] for row in loader.query(WRONG)}, f"seed {seed}, after {what} at {offset}: {faults}"
        assert len(faults) == len(found), f"seed {seed}, after {what} at {offset}: {faults}"


# By hand, with the load that covers the offset, as it would be.
_OF_OFFSET = "select c.load_id from penstock.covered c where %(offset)s >= from_offset and %(offset)s < until_offset"
_THERE = "where _offset = %(offset)s"
_TAKE = f"delete from analytics.orders {_THERE}"
MEDDLING = {
    "change": [f"update analytics.orders set id = id + 1000 {_THERE}"],
    "delete": [_TAKE],
    "insert": [
        _TAKE,
        f"insert into analytics.orders values (5, 'five', ({_OF_OFFSET}), 0, %(offset)s, now())",
    ],
    "mend": [
        _TAKE,
        f"insert into analytics.orders select id, note, ({_OF_OFFSET}), 0, _offset, _timestamp from truth {_THERE}",
    ],
}
WRONG = """
select coalesce(o._offset, t._offset) from analytics.orders o full join truth t using (_offset)
where (o.id, o.note, o._timestamp) is distinct from (t.id, t.note, t._timestamp)
"""


def test_a_fingerprint_that_is_not_that_of_the_log_s_rows_is_a_fault_of_the_ledger(start: Start) -> None:
    account, loader = start()
    account.send_orders(10)
    loader.load()
    tamper(loader, "update penstock.coverage set row_hash = row_hash + 1")

    [fault] = loader.verify(share=0).faults
    assert (fault.kind, tell((fault,))) == ("ledger", [("ledger", 0, 0, 10)])
    assert "the rows are those that the log gives" in fault.told
    loader.backfill(ByOffsets((Span(0, 0, 10),)), replace=True)
    assert loader.verify(share=0).faults == ()


def test_two_values_that_changed_places_are_found(start: Start) -> None:
    account, loader = start()
    account.send_orders(50)
    loader.load()
    tamper(
        loader,
        "update analytics.orders t set id = o.id, note = o.note from analytics.orders o"
        " where (t._offset = 3 and o._offset = 4) or (t._offset = 4 and o._offset = 3)",
    )
    assert tell(loader.verify(share=0).faults) == [("rows_changed", 0, 3, 4), ("rows_changed", 0, 4, 5)]


def test_tampering_is_found_after_retention_too_and_located_to_its_range(start: Start) -> None:
    account, loader = start()
    account.send_orders(100)
    loader.load()
    account.send_orders(100, first=100)
    loader.load()
    account.delete_before(150)
    tamper(loader, "update analytics.orders set note = 'x' where _offset in (20, 120, 180)")

    verified = loader.verify()

    assert tell(verified.faults) == [("rows_changed", 0, 0, 100), ("rows_changed", 0, 180, 181)]
    assert (verified.chunks, verified.chunks_held) == (2, 0), "a chunk is read again only if it is still there whole"


def test_records_in_the_log_that_are_not_those_that_were_loaded_are_found_by_the_other_reader(start: Start) -> None:
    account, loader = start(2)
    account.send_orders(40, partition=0)
    account.send_orders(40, partition=1)
    loader.load()
    # The log cannot be changed from outside; what was taken of it can: the two must agree, so either shows.
    tamper(loader, "update penstock.stage_task set log_hash = log_hash + 1 where partition = 1")

    [fault] = loader.verify().faults

    assert tell((fault,)) == [("log_changed", 1, 0, 40)]
    assert "the two readers do not agree" in fault.told

    assert loader.verify(share=0).faults == (), "the log was not looked at"
    assert read_health(loader).state == "faulty", "what was not looked at again is not disproved"
    tamper(loader, "update penstock.stage_task set log_hash = log_hash - 1 where partition = 1")
    assert loader.verify().faults == ()
    assert read_health(loader).state == "ok"


def test_what_compaction_took_is_no_fault_and_a_row_changed_behind_it_is_located(
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
        await_true(lambda: read_offsets_anew(account) == [59, 60, 61, 62, 63], "the log cleaner has been there")

    verified = loader.verify()
    assert verified.faults == ()
    assert verified.chunks_reread == 1

    tamper(loader, "update analytics.orders set note = 'x' where _offset = 62")
    assert tell(loader.verify().faults) == [("rows_changed", 0, 62, 63)]


def read_offsets_anew(account: Account) -> list[int]:
    """The offsets below 65 that the log still has; something is sent, so that what was sent before may be compacted."""
    account.send([b"{}"], key=b"another")
    consumer = open_consumer(account.bootstrap, "seen")
    with closing(consumer):
        consumer.assign([TopicPartition(account.topic, 0, 0)])
        return [record.offset() for record in read_to_end(consumer) if record.offset() <= 65]


def test_what_spark_loaded_the_native_reader_reads_again(start: Start) -> None:
    account, loader = start(reader="spark")
    account.send_orders(30)
    account.transact([order(number) for number in range(5)], commit=True)
    loader.load()

    def never(*_: object) -> None:
        raise AssertionError("Spark has loaded it, so Spark proves nothing")

    verified = verify_pipeline(loader.settings, loader.pipeline, "tester", 1.0, never)
    assert verified is not None
    assert (verified.faults, verified.chunks_reread) == ((), 1)
    tamper(loader, "update penstock.stage_task set log_hash = log_hash + 1")
    verified = verify_pipeline(loader.settings, loader.pipeline, "tester", 1.0, never)
    assert verified is not None
    assert [fault.kind for fault in verified.faults] == ["log_changed"]


# Rows and both fingerprints as a load leaves them whose COPY has stored the text wrongly.
MOJIBAKE = (
    "update analytics.orders set note = convert_from(convert_to(note, 'UTF8'), 'LATIN1') where note ~ '[^\\x01-\\x7f]'"
)


def fit_ledger(loader: Loader) -> None:
    """Let the ledger say of each range what the target holds, as if it had been staged so."""
    hashed = hash_row(loader.pipeline).as_string(None)
    tamper(
        loader,
        f"update penstock.coverage c set row_hash = (select coalesce(sum({hashed}), 0) from analytics.orders t"
        " where t._load_id = c.load_id and t._partition = c.partition and c.offsets @> t._offset)",
    )


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_text_that_a_copy_stored_in_another_encoding_is_found_down_to_its_offset(start: Start, reader: str) -> None:
    account, loader = start(2, reader=reader)
    account.send_orders(30, partition=0)
    account.send([b'{"id": 1, "note": "Z\xc3\xbcrich"}', b"no JSON", b'{"id": 2, "note": "plain"}'], partition=1)
    loader.load()
    tamper(loader, MOJIBAKE)
    fit_ledger(loader)
    assert loader.query("select note from analytics.orders where _partition = 1 and _offset = 0") == [("ZÃ¼rich",)]
    assert loader.verify(share=0).faults == (), "neither fingerprint shows it"

    verified = loader.verify()

    assert tell(verified.faults) == [("rows_changed", 1, 0, 1)]
    assert "The records are those that were loaded" in verified.faults[0].told
    assert verified.rows_compared == 32
    assert not any("who changed them" in step for step in verified.next_steps)
    loader.backfill(ByOffsets((Span(1, 0, 1),)), replace=True)
    assert loader.verify().faults == (), "a replay loads it again, from then on rightly"


def test_a_row_that_verification_has_located_by_its_fingerprint_is_told_once(start: Start) -> None:
    account, loader = start()
    account.send_orders(50)
    loader.load()
    tamper(loader, "update analytics.orders set note = 'x' where _offset = 7")
    (fault,) = loader.verify().faults
    assert (fault.kind, fault.told) == ("rows_changed", "the row is changed, compared with the log.")


def test_records_that_other_rules_decode_otherwise_are_found_each_with_what_became_of_it(start: Start) -> None:
    account, loader = start()
    account.send([order(1), b"no JSON", order(3)])
    load = loader.load()
    # As if the load had rejected the record at 0, and accepted the record at 1.
    tamper(loader, "delete from analytics.orders where _offset = 0")
    tamper(loader, f"insert into analytics.orders values (9, 'x', {load}, 0, 1, now())")
    tamper(loader, 'update penstock.quarantine set "offset" = 0')
    fit_ledger(loader)
    assert loader.verify(share=0).faults == ()

    told = {(fault.kind, fault.range.from_offset) for fault in loader.verify().faults if fault.range}

    assert told == {("rows_missing", 0), ("rows_too_many", 1), ("quarantine", 0), ("quarantine", 1)}


def test_a_record_whose_row_the_server_had_refused_is_not_asked_for_again(start: Start) -> None:
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
    fit_ledger(loader)
    verified = loader.verify()
    assert (verified.faults, verified.rows_compared) == ((), 19)
    tamper(loader, "update analytics.orders set note = 'x' where _offset = 7")
    assert tell(loader.verify().faults) == [("rows_changed", 0, 7, 8)]


def test_loads_with_other_columns_are_compared_each_by_its_own_declaration(start: Start) -> None:
    account, loader = start()
    account.send_orders(30)
    loader.load()
    loader.pipeline = declare(account.topic, columns={**COLUMNS, "more": {"type": "jsonb", "path": "$.more"}})
    account.send([b'{"id": 1, "more": {"a": "\xc3\xbc"}}'] * 20)
    loader.load()
    verified = loader.verify()
    assert (verified.faults, verified.rows_compared) == ((), 50)
    tamper(loader, "update analytics.orders set more = '{}' where _offset = 40")
    fit_ledger(loader)
    assert tell(loader.verify().faults)[-1] == ("rows_changed", 0, 40, 41)


def test_a_ledger_that_does_not_add_up_is_found(start: Start) -> None:
    account, loader = start()
    account.send_orders(30)
    load = loader.load()
    tamper(loader, "update penstock.position set position = position + 5")
    tamper(loader, "update penstock.coverage set offsets = int8range(0, 29), rows = 29")

    faults = loader.verify(share=0).faults

    assert ("ledger", 0, 29, 35) not in tell(faults), "offsets that nothing covers below the position are gaps"
    assert {fault.kind for fault in faults} == {"ledger", "rows_outside"}
    tamper(loader, "update penstock.load set state = 'superseded'")
    tamper(loader, "update penstock.position set position = 20")
    told = " ".join(str(fault) for fault in loader.verify(share=0).faults)
    assert "beyond the position 20" in told
    assert "the load is superseded, and covers partition 0 offsets [0,29)" in told
    assert load


@pytest.mark.parametrize(
    ("statement", "told", "word"),
    [
        ("alter table analytics.orders drop column note", "has no column note any more", "faulty"),
        ("drop table analytics.orders", "_load_id, _offset, _partition, _timestamp, id, note any more", "bad_target"),
    ],
)
def test_a_table_or_a_column_that_is_gone_is_a_fault(start: Start, statement: str, told: str, word: str) -> None:
    account, loader = start()
    account.send_orders(10)
    loader.load()
    with connect(loader.db) as connection:
        connection.execute(statement.encode())

    [fault] = loader.verify().faults
    assert told in fault.told
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
    assert (fault.kind, fault.told) == ("rows_outside", f"3 rows name load {load + 5}, which covers nothing.")


def test_a_quarantined_record_that_is_gone_is_found(start: Start) -> None:
    account, loader = start()
    account.send([b"no JSON", order(1), b"nor this"])
    loader.load()
    tamper(loader, 'delete from penstock.quarantine where "offset" = 2')
    assert tell(loader.verify(share=0).faults) == [("quarantine", 0, 2, 3)]


VALUES = {
    "smallint": ("1", "2"), "integer": ("1", "2"), "bigint": ("1", "2"), "real": ("1.5", "1.25"),
    "double precision": ("1.5", "1.25"), "numeric(12,2)": ("1.50", "1.51"), "text": ("a", "b"),
    "varchar(9)": ("a", "b"), "char(9)": ("a", "b"), "boolean": ("true", "false"), "bytea": ("a", "b"),
    "date": ("2026-01-31", "2026-02-01"), "time": ("10:00", "10:01"), "timestamp": ("2026-01-31", "2026-02-01"),
    "timestamptz": ("2026-01-31", "2026-02-01"),
    "uuid": ("00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"),
    "json": ('{"a": 1}', '{"a":1}'), "jsonb": ('{"a": 1}', '{"a": 2}'),
}  # fmt: skip


def test_every_type_of_column_has_a_hash_that_tells_values_null_and_neighbours_apart(db: str) -> None:
    types = {f"c{place}": type_ for place, type_ in enumerate(VALUES)}
    pipeline = declare("topic", columns={name: {"type": type_, "path": f"$.{name}"} for name, type_ in types.items()})
    with connect(db) as connection:
        described = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        connection.execute(f"create temporary table t (_offset bigint, _timestamp timestamptz, {described})".encode())
        hashed = sql.SQL("select {} from t").format(hash_row(pipeline))

        def fingerprint(**changed: str | None) -> int:
            values = {f"c{place}": one for place, (one, _) in enumerate(VALUES.values())} | changed
            connection.execute("truncate t")
            row = ", ".join("null" if value is None else f"'{value}'" for value in values.values())
            connection.execute(f"insert into t values (7, now(), {row})".encode())
            found = connection.execute(hashed).fetchone()
            assert found
            return int(found[0])

        same = fingerprint()
        assert fingerprint() == same
        assert fingerprint(c0="1", c1="2") != fingerprint(c0="2", c1="1"), "smallint and integer change places"
        for place, (_, other) in enumerate(VALUES.values()):
            name = f"c{place}"
            assert len({same, fingerprint(**{name: other}), fingerprint(**{name: None})}) == 3, types[name]
