"""Approving and discarding loads, and the alerts about holds, against a real PostgreSQL."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import declare
from fix_loads import Bind, stage_rows
from noticing import send
from penstock.alerts.sender import send_due
from penstock.decide.settle import approve_load, discard_in, discard_load, release_in
from penstock.errors import FencedError, StageError, WrongUseError
from penstock.ledger.connection import connect
from penstock.ledger.incident import claim_notices
from penstock.ledger.load import read_load
from penstock.load.failure import see_failure
from penstock.load.publish import publish_load
from penstock.load.validate import validate_load
from penstock.model.ranges import Range
from penstock.waiting import wait_until
from privileges import superuser
from receiving import Receiver, Silence, refused_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
    load_id = stage_rows(db, ranges, pipeline=ALERTED)
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


ALERTED = declare("topic", alerts="oncall")


def test_hold_is_alerted_once_when_it_begins_and_once_when_it_ends(db: str, bound: Bind, receiver: Receiver) -> None:
    load_id = hold(db)
    assert [send(db, [receiver.url]) for _ in range(3)] == [1, 0, 0]
    approve_load(db, bound(db), load_id, "ada", "known")
    assert [send(db, [receiver.url]) for _ in range(3)] == [1, 0, 0]
    titles = [message["title"] for message in receiver.messages]
    assert titles == [f"Penstock: load {load_id} of orders is held",
                      f"Penstock: load {load_id} of orders is no longer held"]  # fmt: skip
    assert "ada decided to approve it: known" in receiver.messages[1]["message"]


def test_a_hold_that_ended_before_it_was_sent_is_not_sent(db: str, receiver: Receiver) -> None:
    discard_load(db, hold(db), "ada", "known")
    assert send(db, [receiver.url]) == 0


def test_the_end_of_a_hold_is_sent_if_the_receiver_was_down_all_the_time(db: str, receiver: Receiver) -> None:
    load_id = hold(db)
    assert send(db, [f"json://127.0.0.1:{refused_port()}/"]) == 0
    discard_load(db, load_id, "ada", "known")
    assert send(db, [receiver.url]) == 1
    assert [message["title"] for message in receiver.messages] == [
        f"Penstock: load {load_id} of orders is no longer held"
    ]


def test_a_notice_that_no_receiver_took_is_sent_by_a_later_process(db: str, receiver: Receiver) -> None:
    hold(db)
    assert send(db, [f"json://127.0.0.1:{refused_port()}/hook/s3cr3t-token"]) == 0
    [(attempts, error)] = execute(db, "select attempts, last_error from penstock.notices")
    assert (attempts, error) == (1, "target 1 of 1 (json): refused, or not reached")
    assert send(db, [receiver.url]) == 0  # the receiver gets a pause
    make_due(db)
    assert send(db, [receiver.url]) == 1
    assert len(receiver.messages) == 1


def test_processes_that_send_at_once_send_one_notice(db: str, receiver: Receiver) -> None:
    hold(db)
    sent: list[int] = []
    receiver.wait = 0.5  # long enough for all to run at once
    threads = [threading.Thread(target=lambda: sent.append(send(db, [receiver.url]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sent) == [0, 0, 0, 1]
    assert len(receiver.messages) == 1


def test_notice_of_a_process_that_died_is_sent_by_another_after_its_lease(db: str, receiver: Receiver) -> None:
    hold(db)
    with connect(db) as dying:
        assert len(claim_notices(dying, ["oncall"], 10)) == 1
    assert send(db, [receiver.url]) == 0
    make_due(db)
    assert send(db, [receiver.url]) == 1


def test_no_change_of_state_waits_for_a_notice_that_is_being_sent(db: str, receiver: Receiver) -> None:
    load_id = hold(db)
    with Silence() as silence:
        sender = threading.Thread(target=lambda: send(db, [silence.url]))
        sender.start()
        assert wait_until(lambda: execute(db, "select 1 from penstock.notice where attempts = 1"), seconds=30)
        with psycopg.connect(db, options="-c lock_timeout=1s") as connection:
            discard_in(connection, load_id, "ada", "known")
        assert sender.is_alive()
        sender.join()
    assert send(db, [receiver.url]) == 1


def test_a_failing_receiver_does_not_keep_another_route_waiting(db: str, receiver: Receiver) -> None:
    hold(db)
    execute(db, "insert into penstock.notice (incident_id, kind, route, due_at, next_attempt_at)"
                " select incident_id, 'reminder', 'other', due_at, due_at from penstock.notice")  # fmt: skip
    with Silence() as silence:
        routes = {"oncall": [silence.url], "other": [receiver.url]}
        assert send_due(db, routes.get, 10) == 1
    assert len(receiver.messages) == 1


def test_a_route_that_this_process_does_not_know_waits_for_another_process(db: str, receiver: Receiver) -> None:
    hold(db)
    assert send_due(db, lambda _: None) == 0
    assert execute(db, "select attempts from penstock.notices") == [(0,)]
    assert send(db, [receiver.url]) == 1


def test_loads_that_fail_for_one_cause_are_one_incident_until_a_load_is_published(
    db: str, bound: Bind, receiver: Receiver
) -> None:
    load_id = stage_rows(db, pipeline=ALERTED)
    with connect(db) as connection:
        load = read_load(connection, load_id)
        for _ in range(3):  # the task of one load is cleared twice
            see_failure(connection, ALERTED, load, StageError("no executor"))
        for _ in range(2):
            see_failure(connection, ALERTED, None, StageError("no executor"))
    assert send(db, [receiver.url]) == 1
    assert execute(db, "select times_seen, kind, state from penstock.incidents") == [(3, "failing_stage", "open")]
    assert validate_load(db, load_id).passed
    publish_load(db, bound(db), load_id)
    assert send(db, [receiver.url]) == 1
    assert [message["title"] for message in receiver.messages] == [
        "Penstock: a run of orders failed",
        "Penstock: orders loads again",
    ]
    assert f"load {load_id} is published" in receiver.messages[1]["message"]


def test_without_a_database_no_notice_is_sent_and_no_error_is_raised(receiver: Receiver) -> None:
    away = f"postgresql://nobody@127.0.0.1:{refused_port()}/none"
    assert send(away, [receiver.url]) == 0
    assert receiver.messages == []


def make_due(db: str) -> None:
    """As if the pauses and the leases were over."""
    execute(db, "update penstock.notice set next_attempt_at = now() where sent_at is null")
