"""Records without value: rows of the target, deletions of an upsert, and no loss by rules, copies or redrives."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import declare
from penstock.backfill.redrive import redrive
from penstock.ledger.quarantine import Selection
from penstock.load.results.rebuild import rebuild_result
from penstock.maintenance.run import maintain

if TYPE_CHECKING:
    from fix_loaders import Start
    from producing import Account
    from whole_loads import Loader

COLUMNS = {"customer": {"type": "bigint", "required": True}, "city": {"type": "text"}}
NEWEST = {"table": "analytics.newest", "mode": "upsert", "key": ["customer"], "deleted_when": "tombstone"}
EVER = NEWEST | {"guards_days": None}
KEPT: dict[str, Any] = {
    "columns": COLUMNS,
    "tombstones": "keep",
    "key_columns": {"customer": "$.id"},
    "results": [NEWEST],
}


def send(account: Account, customer: int, city: str | None, key: bytes | None = None) -> None:
    value = None if city is None else json.dumps({"customer": customer, "city": city}).encode()
    account.send([value], key=json.dumps({"id": customer}).encode() if key is None else key)


def newest(loader: Loader) -> list[Any]:
    return loader.query("select customer, city from analytics.newest order by 1")


@pytest.mark.parametrize("reader", ["native", "spark"])
def test_a_record_without_value_deletes_its_key_and_stays_as_a_row(start: Start, reader: str) -> None:
    # A rule and dedupe that would take each tombstone for a wrong row, and for a copy of the row that it deletes.
    rules = [{"name": "city", "where": "city is not null"}]
    dedupe = {"by": ["customer"], "within": "1d", "hold_above": {"records": 0}}
    account, loader = start(1, **KEPT, reader=reader, rules=rules, dedupe=dedupe, indexes=[["customer"]])
    for customer in (1, 2):
        send(account, customer, "Oslo")
    loader.load()
    assert newest(loader) == [(1, "Oslo"), (2, "Oslo")]
    send(account, 1, None)
    send(account, 3, "Rome")
    send(account, 3, None)
    send(account, 4, None, key=b"no JSON")
    loader.load()

    assert newest(loader) == [(2, "Oslo")]
    assert loader.query("select customer, city, _tombstone from analytics.orders order by _offset") == [
        (1, "Oslo", False), (2, "Oslo", False), (1, None, True), (3, "Rome", False), (3, None, True),
    ]  # fmt: skip
    assert loader.query('select "offset", reason from penstock.quarantined') == [(5, "bad_json")]
    verified = loader.verify()
    assert (verified.faults, verified.rows_compared) == ((), 5)
    with psycopg.connect(loader.db) as connection:
        connection.execute("update analytics.orders set _tombstone = false where _offset = 2")
    assert {fault.kind for fault in loader.verify().faults} >= {"rows_changed", "result"}


def test_records_without_value_return_from_the_quarantine_as_deletions(start: Start) -> None:
    account, loader = start(1, columns=COLUMNS)
    send(account, 1, "Oslo")
    send(account, 2, "Rome")
    send(account, 1, None)
    loader.load()
    assert loader.query('select "offset", reason from penstock.quarantined') == [(2, "null_value")]
    kept = replace(loader, pipeline=declare(loader.pipeline.topic, **KEPT))

    rebuild_result(kept.settings.db, kept.pipeline, "analytics.newest", "ann", lambda _: None)
    assert newest(kept) == [(1, "Oslo"), (2, "Rome")]
    outcome = redrive(kept.settings, kept.pipeline, Selection("orders"), "ann", lambda _: None, dry_run=False)

    assert (outcome.passing, newest(kept)) == (1, [(2, "Rome")])
    assert kept.verify().faults == ()


def test_the_text_of_a_key_deletes_its_row(start: Start) -> None:
    declared = {name: value for name, value in KEPT.items() if name != "key_columns"}
    account, loader = start(1, **declared, key="text")
    send(account, 7, "Oslo", key=b"7")
    send(account, 8, "Rome", key=b"8")
    send(account, 7, None, key=b"7")
    loader.load()

    assert newest(loader) == [(8, "Rome")]
    assert loader.query("select customer, _key from analytics.orders where _tombstone") == [(7, "7")]


def test_guards_of_deleted_keys_are_dropped_after_their_days(start: Start) -> None:
    account, loader = start(1, **KEPT)
    for customer in (1, 2, 3):
        send(account, customer, "Oslo")
    loader.load()
    for customer in (1, 2):
        send(account, customer, None)
    loader.load()
    guards = "penstock_results." + loader.query("select relname from pg_class where relname ~ '^guards_[0-9]+$'")[0][0]
    assert maintain(loader.db, loader.pipeline, lambda _: None).dropped.guards == 0
    with psycopg.connect(loader.db) as connection:
        connection.execute(f"delete from {guards} where customer = 2".encode())
    [fault] = loader.verify().faults
    assert "of 2 guards (deletions, and overtaken rows) 1 are missing, 0 are too many" in fault.message
    rebuild_result(loader.settings.db, loader.pipeline, "analytics.newest", "ann", lambda _: None)
    guards = "penstock_results." + loader.query("select relname from pg_class where relname ~ '^guards_[0-9]+$'")[0][0]
    assert loader.verify().faults == ()
    with psycopg.connect(loader.db) as connection:
        connection.execute(f"update {guards} set _kept_since = now() - interval '400 days' where customer = 1".encode())

    assert maintain(loader.db, loader.pipeline, lambda _: None).dropped.guards == 1

    assert loader.query(f"select customer from {guards}") == [(2,)]
    assert loader.verify().faults == ()
    for_ever = replace(loader, pipeline=declare(loader.pipeline.topic, **KEPT | {"results": [EVER]}))
    with psycopg.connect(loader.db) as connection:
        connection.execute(f"update {guards} set _kept_since = now() - interval '4000 days'".encode())
    assert maintain(for_ever.db, for_ever.pipeline, lambda _: None).dropped.guards == 0
    send(account, 4, "Rome")
    for_ever.load()  # another time of guards needs no rebuild
    assert newest(for_ever) == [(3, "Oslo"), (4, "Rome")]
