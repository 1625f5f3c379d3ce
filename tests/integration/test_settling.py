"""Approving and discarding loads, and the alerts about holds, against a real PostgreSQL."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from fix_loads import Bind, stage_rows
from penstock.alerts.alert import Alert
from penstock.alerts.outbox import alert_once, claim_alert
from penstock.decide.settle import approve_load, discard_load, release_in
from penstock.errors import FencedError, WrongUseError
from penstock.ledger.connection import connect
from penstock.load.publish import publish_load
from penstock.load.validate import validate_load
from penstock.model.ranges import Range
from privileges import superuser
from receiving import Receiver, refused_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.alerts.alert import AlertKind


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started


def execute(db: str, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    with psycopg.connect(superuser(db)) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def hold(db: str, ranges: Sequence[Range] = (Range(0, 0, 100),)) -> int:
    """A load that its checks hold, because a row is missing."""
    load_id = stage_rows(db, ranges)
    execute(db, f"delete from penstock_stage.load_{load_id}_1 where _offset = 3")
    assert not validate_load(db, load_id).passed
    return load_id


def events(db: str, load_id: int) -> list[tuple[str, str, str | None]]:
    return execute(db, "select actor, what, why from penstock.event where load_id = %s order by event_id", [load_id])


def test_approved_load_is_published_as_it_is_with_who_and_why(db: str, bound: Bind) -> None:
    load_id = hold(db)
    published = approve_load(db, bound(db), load_id, "ada", "the row is known to be lost")
    assert published.by_this_call
    assert execute(db, "select count(*) from analytics.orders") == [(99,)]
    assert execute(db, "select position from penstock.position") == [(100,)]
    assert [what for _, what, _ in events(db, load_id)] == ["held", "approved", "published"]
    assert ("ada", "approved", "the row is known to be lost") in events(db, load_id)


def test_approval_that_was_interrupted_before_the_publish_continues(db: str, bound: Bind) -> None:
    load_id = hold(db)
    with connect(db) as connection:
        release_in(connection, load_id, "ada", "known")
    assert approve_load(db, bound(db), load_id, "ada", "known").by_this_call
    assert not approve_load(db, bound(db), load_id, "ada", "known").by_this_call
    assert [what for _, what, _ in events(db, load_id)] == ["held", "approved", "published"]


def test_approval_whose_position_has_moved_publishes_nothing(db: str, bound: Bind) -> None:
    load_id = hold(db)
    execute(db, "update penstock.position set position = 50")
    with pytest.raises(FencedError, match="position"):
        approve_load(db, bound(db), load_id, "ada", "known")
    assert execute(db, "select count(*) from analytics.orders") == [(0,)]


@pytest.mark.parametrize("state", ["planned", "staging", "staged", "validated", "published", "failed", "superseded",
                                   "discarded", "rolled_back"])  # fmt: skip
def test_only_a_held_load_is_approved(db: str, bound: Bind, state: str) -> None:
    load_id = stage_rows(db)
    execute(db, "update penstock.load set state = %s", [state])
    with pytest.raises(WrongUseError, match=f"load {load_id} .*: the load is {state} and cannot be approved"):
        approve_load(db, bound(db), load_id, "ada", "because")
    assert execute(db, "select state from penstock.load") == [(state,)]


@pytest.mark.parametrize("state", ["planned", "staging", "staged", "validated", "held"])
def test_discarded_load_leaves_its_offsets_to_the_next_load_and_no_table(db: str, bound: Bind, state: str) -> None:
    load_id = stage_rows(db)
    execute(db, "update penstock.load set state = %s", [state])
    assert discard_load(db, load_id, "ada", "wrong topic").state == "discarded"
    assert discard_load(db, load_id, "ada", "wrong topic").state == "discarded"
    assert events(db, load_id) == [("ada", "discarded", "wrong topic")]
    assert execute(db, "select count(*) from pg_tables where schemaname = 'penstock_stage'") == [(0,)]
    assert execute(db, "select partition, position from penstock.position order by 1") == [(0, 0), (1, 500)]
    again = stage_rows(db)
    assert validate_load(db, again).passed
    assert publish_load(db, bound(db), again).by_this_call


@pytest.mark.parametrize("state", ["published", "failed", "superseded", "rolled_back"])
def test_finished_load_is_not_discarded(db: str, state: str) -> None:
    load_id = stage_rows(db)
    execute(db, "update penstock.load set state = %s", [state])
    with pytest.raises(WrongUseError, match=f"the load is {state} and cannot be discarded"):
        discard_load(db, load_id, "ada", "because")


def test_who_and_why_are_demanded_and_the_load_must_exist(db: str, bound: Bind) -> None:
    load_id = hold(db)
    with pytest.raises(WrongUseError, match="why"):
        approve_load(db, bound(db), load_id, "ada", "  ")
    with pytest.raises(WrongUseError, match="who"):
        discard_load(db, load_id, "", "because")
    with pytest.raises(WrongUseError, match="no load 4711"):
        approve_load(db, bound(db), 4711, "ada", "because")
    assert execute(db, "select state from penstock.load") == [("held",)]


def describe(load_id: int, kind: AlertKind = "hold_began") -> Alert:
    return Alert("orders", kind, "a row is missing", "approve or discard it", load_id, (Range(0, 0, 100),))


def test_hold_is_alerted_once_when_it_begins_and_once_when_it_ends(db: str, bound: Bind, receiver: Receiver) -> None:
    load_id = hold(db)
    assert not alert_once(db, [receiver.url], describe(load_id, "hold_ended"))  # the hold has not ended
    assert [alert_once(db, [receiver.url], describe(load_id)) for _ in range(3)] == [True, False, False]
    approve_load(db, bound(db), load_id, "ada", "known")
    assert not alert_once(db, [receiver.url], describe(load_id))  # no late alert about the beginning of an ended hold
    assert [alert_once(db, [receiver.url], describe(load_id, "hold_ended")) for _ in range(3)] == [True, False, False]
    titles = [message["title"] for message in receiver.messages]
    assert titles == [f"Penstock: load {load_id} of orders is held",
                      f"Penstock: load {load_id} of orders is no longer held"]  # fmt: skip


def test_alert_that_failed_is_sent_by_the_next_run(db: str, receiver: Receiver) -> None:
    load_id = hold(db)
    assert not alert_once(db, [f"json://127.0.0.1:{refused_port()}/"], describe(load_id), seconds=5)
    assert alert_once(db, [receiver.url], describe(load_id))
    assert len(receiver.messages) == 1


def test_processes_that_alert_at_once_send_one_alert(db: str, receiver: Receiver) -> None:
    load_id = hold(db)
    sent: list[bool] = []
    receiver.wait = 0.5  # long enough for all to run at once
    threads = [
        threading.Thread(target=lambda: sent.append(alert_once(db, [receiver.url], describe(load_id))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sent) == [False, False, False, True]
    assert len(receiver.messages) == 1


def test_claim_of_a_process_that_died_can_be_claimed_again(db: str) -> None:
    load_id = hold(db)
    with connect(db) as dying:
        assert claim_alert(dying, load_id, "hold_began")
        dying.rollback()  # as PostgreSQL does for a dead client
    with connect(db) as connection:
        assert claim_alert(connection, load_id, "hold_began")
    with connect(db) as connection:
        assert not claim_alert(connection, load_id, "hold_began")


def test_failed_load_is_alerted_once_however_often_it_is_cleared(db: str) -> None:
    load_id = stage_rows(db)
    with connect(db) as connection:
        assert claim_alert(connection, load_id, "load_failed")
        assert not claim_alert(connection, load_id, "load_failed")


def test_without_a_database_no_alert_is_sent_and_no_error_is_raised(receiver: Receiver) -> None:
    away = f"postgresql://nobody@127.0.0.1:{refused_port()}/none"
    assert not alert_once(away, [receiver.url], describe(1))
    assert receiver.messages == []
