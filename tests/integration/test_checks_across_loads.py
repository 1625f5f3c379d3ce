"""Checks across loads see each row that the target will have beside the load, and no row that the load replaces."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from declaring import declare
from penstock.backfill.request import AllGaps, ByOffsets, Span
from penstock.decide.adopt import adopt
from penstock.decide.rollback import roll_back
from penstock.load.publish import publish_load
from producing import order
from proving import find_faults

if TYPE_CHECKING:
    from fix_kafka import MakeTopic
    from fix_loaders import Start
    from whole_loads import Loader

VERSIONED: dict[str, Any] = {
    "columns": {"id": {"type": "bigint"}, "note": {"type": "text"}, "version": {"type": "bigint"}}
}
IDS = {"expect": "expect_business_id_unique", "columns": ["id"], "across": "30d", "severity": "warning"}
ORDER = {
    "expect": "expect_key_order_within_partition",
    "key": "note",
    "order_by": "version",
    "across": "30d",
    "severity": "warning",
}
HOMES = {"expect": "expect_key_in_one_partition", "key": "note", "across": "30d", "severity": "warning"}


def versioned(number: int, note: str, version: int) -> bytes:
    return json.dumps({"id": number, "note": note, "version": version}).encode()


def declaring(loader: Loader, **changes: Any) -> Loader:
    """The loader after a change of its declaration."""
    return replace(loader, pipeline=declare(loader.pipeline.topic, **changes))


def warnings_of(loader: Loader, load_id: int) -> list[tuple[Any, ...]]:
    """The expectations of a load that failed, and their places."""
    return loader.query(
        "select expectation, observed -> 'places' from penstock.check_results"
        f" where load_id = {load_id} and not success and partition is null order by 1"
    )


def test_a_replay_that_moves_copies_aside_is_not_compared_with_them(start: Start) -> None:
    account, loader = start(2, checks=[IDS])
    account.send([order(1), order(2), order(1)], partition=0)
    account.send([order(2), order(3)], partition=1)
    first = loader.load()
    assert [len(places) for _, places in warnings_of(loader, first)] == [2]
    account.send([order(3)], partition=0)
    later = loader.load()
    assert [places[0]["other"] for _, places in warnings_of(loader, later)] == [[1, 1]]
    cleaning = declaring(loader, checks=[IDS], dedupe={"by": ["id"]})

    [replay] = cleaning.backfill(ByOffsets((Span(0, 0, 3), Span(1, 0, 2))), replace=True)

    # The record of the later load stays in the target, so it is a copy still.
    assert [(places[0]["offset"], places[0]["other"], len(places)) for _, places in warnings_of(loader, replay)] == [
        (1, [0, 3], 1)
    ]
    assert find_faults(loader.db, account) == []


def test_a_replay_is_not_compared_with_replaced_rows_that_fail_a_rule_today(start: Start) -> None:
    account, loader = start(2, checks=[ORDER, HOMES], **VERSIONED)
    account.send([versioned(1, "a", 999), versioned(2, "a", 5), versioned(3, "b", 1)], partition=0)
    account.send([versioned(4, "a", 999), versioned(5, "b", 999)], partition=1)
    first = loader.load()
    assert [each[0] for each in warnings_of(loader, first)] == [ORDER["expect"], HOMES["expect"]][::-1]
    cleaning = declaring(
        loader, checks=[ORDER, HOMES], rules=[{"name": "known", "where": "version < 999"}], **VERSIONED
    )

    [replay] = cleaning.backfill(ByOffsets((Span(0, 0, 3), Span(1, 0, 2))), replace=True)

    assert warnings_of(loader, replay) == []
    assert loader.query("select count(*) from analytics.orders") == [(2,)]


def test_a_topic_that_was_made_again_with_the_same_records_has_copies(start: Start, make_topic: MakeTopic) -> None:
    account, loader = start(checks=[IDS])
    account.send([order(1), order(2)])
    loader.load()
    account.topic = make_topic()
    again = declaring(replace(loader, pipeline=declare(account.topic)), checks=[IDS])
    account.send([order(1), order(3)])
    adopt(again.db, again.settings.kafka, again.pipeline, None, "ann", "the topic was made again")

    load = again.load()

    assert [[(each["offset"], each["other"]) for each in places] for _, places in warnings_of(again, load)] == [
        [(0, [0, 0])]
    ]


def test_a_load_that_waited_while_a_later_load_was_published_is_in_the_window(start: Start) -> None:
    account, loader = start(checks=[IDS])
    account.send([order(1), order(2)])
    first = loader.load()
    loader.query("update penstock.load set published_at = now() - interval '40 days' returning load_id")
    roll_back(loader.db, first, "ann", "a test")
    [waiting] = loader.plan_backfill(AllGaps()).load_ids
    loader.stage(waiting)
    account.send([order(3)])
    later = loader.load()
    publish_load(loader.db, loader.settings.kafka, waiting)
    account.send([order(2), order(3)])

    load = loader.load()

    assert waiting < later
    [(_, places)] = warnings_of(loader, load)
    assert [(each["offset"], each["other"]) for each in places] == [(3, [0, 1]), (4, [0, 2])]
