"""The outbox of notices: two senders, a sender that dies, and receivers of which some do not answer."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from declaring import declare
from loading_process import await_blocked, await_true, locked
from noticing import send
from penstock.alerts.sender import send_due
from penstock.ledger.connection import connect
from penstock.ledger.incident import claim_notices, end_incidents, finish_notices, see_incident
from penstock.model.incident import IncidentKind, Sighting
from privileges import superuser
from receiving import Receiver, Silence

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILING = (IncidentKind.FAILING_RUN, IncidentKind.FAILING_STAGE, IncidentKind.QUARANTINE_LIMIT)
# A sender in a process of its own. The receiver of the test answers when the test wants.
SENDER = """
import sys
from penstock.alerts import sender
sender.SECONDS_EACH = 600
sender.send_due(sys.argv[1], lambda route: [sys.argv[2]], 600)
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started


def see(db: str, kind: IncidentKind = IncidentKind.FAILING_RUN, alerts: object = "oncall", key: str = "live") -> None:
    pipeline = declare("topic", alerts=alerts)
    with connect(db) as connection:
        see_incident(connection, Sighting("orders", kind, key, f"{kind}: no broker", "look"), pipeline.alerts)


def execute(db: str, statement: str) -> list[Any]:
    with psycopg.connect(superuser(db)) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def make_due(db: str) -> None:
    """As if the leases and the pauses were over."""
    execute(db, "update penstock.notice set next_attempt_at = now() where sent_at is null")


def test_a_sender_killed_after_it_sent_lets_the_next_one_send_again(db: str, receiver: Receiver) -> None:
    see(db)
    receiver.wait = 600
    url = f"{receiver.url}?cto=600&rto=600"
    process = subprocess.Popen([sys.executable, "-c", SENDER, db, url])
    try:
        await_true(receiver.asked.is_set, "the receiver has the notice")
        with locked(db, "lock table penstock.notice in share mode"):
            receiver.stopped.set()  # it answers now
            await_blocked(db)
            process.kill()
            process.wait()
    finally:
        process.kill()
        process.wait()
    assert len(receiver.messages) == 1

    assert send(db, [receiver.url]) == 0, "the lease is not over"
    make_due(db)
    assert send(db, [receiver.url]) == 1

    first, second = receiver.messages
    assert first == second
    assert execute(db, "select count(*) from penstock.notices where sent_at is not null") == [(1,)]


def test_two_senders_share_the_notices_and_wait_for_no_lock(db: str) -> None:
    for kind in FAILING:
        see(db, kind)
    with connect(db) as one, connect(db) as other:
        other.execute("set lock_timeout = '2s'")
        first = claim_notices(one, ["oncall"], 1)
        rest = claim_notices(other, ["oncall"], 10)
        one.commit()
        other.commit()
        again = claim_notices(one, ["oncall"], 10)
    assert (len(first), len(rest), again) == (1, 2, [])
    assert len({notice.incident_id for notice in (*first, *rest)}) == 3


def test_an_incident_is_noticed_once_whatever_number_of_runs_see_it(db: str, receiver: Receiver) -> None:
    for _ in range(3):
        see(db)
        see(db, IncidentKind.FAILED_CHECK)
    assert execute(db, "select kind, times_seen from penstock.incidents order by 1") == [
        ("failed_check", 3), ("failing_run", 3),
    ]  # fmt: skip
    assert execute(db, "select kind from penstock.notices order by 1") == [("digest",), ("opened",)]
    see(db, key="another")
    assert send(db, [receiver.url]) == 2


def test_a_receiver_that_does_not_answer_delays_no_other_receiver(db: str, receiver: Receiver) -> None:
    silent = ("a", "b", "c")
    see(db, alerts=[{"to": route} for route in (*silent, "oncall")])
    with Silence() as silence:
        urls = {**{route: [silence.url] for route in silent}, "oncall": [receiver.url]}
        assert send_due(db, urls.get, seconds=1) == 0, "the first receiver takes all of the time"
        tried = execute(db, "select route, attempts, last_error is not null from penstock.notices order by 1")
        assert tried == [("a", 1, True), ("b", 0, False), ("c", 0, False), ("oncall", 0, False)]
        sent = 0
        for _ in silent:
            make_due(db)
            sent += send_due(db, urls.get, seconds=1)
    assert (sent, len(receiver.messages)) == (1, 1)


def test_a_digest_comes_once_a_day_and_a_reminder_after_its_time(db: str) -> None:
    see(db, IncidentKind.FAILED_CHECK)
    see(db, alerts=[{"to": "oncall", "remind": "90m"}])
    with connect(db) as connection:
        make_due(db)
        for notice in claim_notices(connection, ["oncall"], 10):
            finish_notices(connection, [notice.notice_id])
    waits = (
        "select n.kind, n.due_at - o.sent_at, extract(hour from n.due_at at time zone 'UTC')::int,"
        " n.due_at::date - o.sent_at::date from penstock.notices n join penstock.notices o using (incident_id, route)"
        " where n.sent_at is null and o.sent_at is not null order by 1"
    )
    (digest, after, hour, days), (reminder, pause, *_) = execute(db, waits)
    assert (digest, hour, days in (0, 1), timedelta(0) < after <= timedelta(days=1)) == ("digest", 6, True, True)
    assert (reminder, pause) == ("reminder", timedelta(minutes=90))
    with connect(db) as connection:
        end_incidents(connection, "orders", None, None, by="penstock", why="it works")
    assert execute(db, "select kind from penstock.notices where sent_at is null order by 1") == [
        ("digest",), ("ended",),
    ]  # fmt: skip
