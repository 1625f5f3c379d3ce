"""`dedupe`: later copies go to the quarantine with the place of the first, and every offset stays accounted for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from declaring import declare
from penstock.backfill.redrive import redrive
from penstock.backfill.request import ByOffsets, Span
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_load
from penstock.ledger.quarantine import Selection
from penstock.load.validate import validate_load
from penstock.quality.rules import apply_rules
from producing import order
from proving import find_faults

if TYPE_CHECKING:
    from fix_loaders import Start
    from whole_loads import Loader

# `id` of these columns may be null; `find_faults` compares it with the records.
COLUMNS = {"id": {"type": "bigint"}, "note": {"type": "text"}}
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def millis(days: float) -> int:
    return int((NOW + timedelta(days=days)).timestamp() * 1000)


def duplicates(loader: Loader) -> list[Any]:
    return loader.query(
        'select partition, "offset", reason, first_partition, first_offset from penstock.quarantined order by 1, 2'
    )


def test_later_copies_in_a_load_go_to_the_quarantine_with_the_place_of_the_first(start: Start) -> None:
    account, loader = start(2, columns=COLUMNS, dedupe={"by": ["id"]})
    account.send([order(1), order(2), order(1), order(1)], partition=0)
    account.send([order(3), order(2), b"{}", b"{}", b'{"id": null}'], partition=1)

    loader.load()

    assert duplicates(loader) == [
        (0, 2, "duplicate", 0, 0), (0, 3, "duplicate", 0, 0), (1, 1, "duplicate", 0, 1),
    ]  # fmt: skip
    assert loader.query("select detail, convert_from(value, 'UTF8') from penstock.quarantined where partition = 1") == [
        ("a copy of the record at partition 0 offset 1", order(2).decode())
    ]
    assert loader.query("select count(*), count(id) from analytics.orders") == [(6, 3)], "null has no copies"
    assert loader.query("select observed from penstock.check_results where expectation = 'dedupe'") == [
        ({"rows": 9, "copies": 3, "hold_above": 10_000},)
    ]
    assert find_faults(loader.db, account) == []
    assert loader.verify().faults == ()
    account.send([order(1)], partition=0)
    loader.load()
    assert len(duplicates(loader)) == 3, "without `within` a load is compared with itself only"


def test_copies_of_earlier_loads_are_found_within_the_window_of_time(start: Start) -> None:
    dedupe = {"by": ["id"], "within": "30d"}
    account, loader = start(2, columns=COLUMNS, dedupe=dedupe, indexes=[["id", "note"]])
    account.send([order(1), order(2)], partition=0, timestamp=millis(0))
    loader.load()
    account.send([order(1)], partition=1, timestamp=millis(29))
    account.send([order(2), order(3)], partition=1, timestamp=millis(31))
    account.send([order(3)], partition=0, timestamp=millis(90))
    loader.load()

    assert duplicates(loader) == [(1, 0, "duplicate", 0, 0), (1, 2, "duplicate", 0, 2)]
    assert find_faults(loader.db, account) == []

    loader.backfill(ByOffsets((Span(0, 0, 3), Span(1, 0, 3))), replace=True)

    # A replayed row is not compared with the row that it replaces. In one load, any distance in time is near enough.
    assert duplicates(loader) == [
        (1, 0, "duplicate", 0, 0), (1, 1, "duplicate", 0, 1), (1, 2, "duplicate", 0, 2),
    ]  # fmt: skip
    assert loader.query("select count(*) from analytics.orders where _partition = 0") == [(3,)]
    assert find_faults(loader.db, account) == []
    assert loader.verify().faults == ()


def test_too_many_copies_hold_the_load_and_none_is_moved(start: Start) -> None:
    account, loader = start(columns=COLUMNS, dedupe={"by": ["id"], "hold_above": {"records": 2}})
    account.send([order(1)] * 4)
    load = loader.plan()
    assert load is not None
    loader.stage_rows(load.load_id)

    verdict = validate_load(loader.db, load.load_id, None, loader.settings.kafka)

    assert verdict.cause == "rule dedupe: rows 4, copies 3, hold_above 2, offsets [[0, 1], [0, 2], [0, 3]]"
    assert loader.query("select rows, quarantined from penstock.loads") == [(4, 0)]


def test_a_retry_after_the_copies_were_moved_gives_the_same_results(start: Start) -> None:
    account, loader = start(columns=COLUMNS, dedupe={"by": ["id"]}, rules=[{"name": "small", "where": "id < 9"}])
    account.send([order(1), order(1), order(9), order(9)])
    planned = loader.plan()
    assert planned is not None
    loader.stage_rows(planned.load_id)
    with open_ledger(loader.db) as connection:
        load = read_load(connection, planned.load_id)

    first = apply_rules(loader.db, loader.settings.kafka, load)
    again = apply_rules(loader.db, loader.settings.kafka, load)

    assert first == again
    assert [result.observed for result in first] == [
        {"rows": 4, "failed": 2, "hold_above": 10_000}, {"rows": 4, "copies": 1, "hold_above": 10_000},
    ]  # fmt: skip
    assert validate_load(loader.db, load.load_id, None, loader.settings.kafka).passed
    loader.publish(load.load_id)
    assert find_faults(loader.db, account) == []


def test_a_redrive_finds_copies_in_the_load_that_quarantined_its_records(start: Start) -> None:
    account, loader = start(columns=COLUMNS, rules=[{"name": "small", "where": "id < 9"}])
    account.send([order(20), order(2), order(20), order(3), order(30)])
    loader.load()
    account.send([order(20), order(4)])
    loader.load()
    allowing = replace(loader, pipeline=declare(account.topic, columns=COLUMNS, dedupe={"by": ["id"]}))
    settings, quiet = loader.settings, lambda _: None

    first = redrive(settings, allowing.pipeline, Selection("orders", partition=0, offset=2), "ann", quiet)
    rest = redrive(settings, allowing.pipeline, Selection("orders"), "ann", quiet)

    assert (first.passing, rest.passing, dict(rest.rejected)) == (1, 2, {("duplicate", None): 1})
    # The record at offset 0 is a copy of that at offset 2 in its own load; that at offset 5 is of another load.
    assert loader.query('select "offset" from penstock.quarantined') == [(0,)]
    assert loader.query("select _offset from analytics.orders order by 1") == [(1,), (2,), (3,), (4,), (5,), (6,)]
    allowing.backfill(ByOffsets((Span(0, 1, 3),)), replace=True)
    again = redrive(settings, allowing.pipeline, Selection("orders"), "ann", quiet)
    assert (again.passing, dict(again.rejected)) == (0, {("duplicate", None): 1}), "a replay holds the first copy now"
    assert find_faults(loader.db, account) == []
    assert loader.verify().faults == ()


def test_a_redrive_leaves_a_copy_in_the_quarantine_while_the_first_is_in_the_table(start: Start) -> None:
    declared: dict[str, Any] = {"columns": COLUMNS, "dedupe": {"by": ["id"], "within": "1d"}, "indexes": [["id"]]}
    account, loader = start(**declared)
    account.send([order(1), order(2), order(1)])
    loader.load()
    settings, quiet = loader.settings, lambda _: None

    outcome = redrive(settings, loader.pipeline, Selection("orders"), "ann", quiet)
    assert (outcome.passing, dict(outcome.rejected)) == (0, {("duplicate", None): 1})
    assert duplicates(loader) == [(0, 2, "duplicate", 0, 0)]

    keeping = declare(account.topic, columns=COLUMNS)
    assert redrive(settings, keeping, Selection("orders"), "ann", quiet).passing == 1
    assert duplicates(loader) == []
    assert find_faults(loader.db, account) == []
    assert loader.verify().faults == ()
