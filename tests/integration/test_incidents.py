"""Incidents and their notices: the command line, mutes, reminders, digests and routes, against real services."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from typer.testing import CliRunner

from declaring import declare, write_declaration
from fix_loads import stage_rows
from noticing import send
from penstock import advice
from penstock.alerts.sender import send_due
from penstock.cli.main import app
from penstock.decide.settle import discard_load
from penstock.ledger.connection import connect
from penstock.ledger.incident import end_incidents, see_incident
from penstock.load.validate import validate_load
from penstock.model.incident import IncidentKind, Sighting
from penstock.model.ranges import Range
from privileges import superuser
from receiving import Mailbox, Receiver, Silence, refused_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.load import Kind

ALERTED = declare("topic", alerts="oncall")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started


def execute(db: str, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    with psycopg.connect(superuser(db)) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def see(
    db: str,
    kind: IncidentKind = IncidentKind.FAILING_RUN,
    key: str = "live",
    message: str = "no broker",
    pipeline: Pipeline = ALERTED,
    **more: Any,
) -> None:
    with connect(db) as connection:
        see_incident(connection, Sighting(pipeline.name, kind, key, message, "look", **more), pipeline.alerts)


def end(db: str, kind: IncidentKind = IncidentKind.FAILING_RUN, why: str = "it works") -> None:
    with connect(db) as connection:
        end_incidents(connection, "orders", [kind], None, by="penstock", why=why)


def make_due(db: str) -> None:
    """As if the pauses, the leases and the intervals of reminders were over."""
    execute(db, "update penstock.notice set next_attempt_at = now() where sent_at is null")


def run(db: str, folder: Path, *arguments: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    """Run a command with its document."""
    settings = {"PENSTOCK_DB": db, "PENSTOCK_KAFKA": f"127.0.0.1:{refused_port()}", "PENSTOCK_PIPELINES": str(folder)}
    done = CliRunner().invoke(app, [*arguments, "--json"], env=settings | environment)
    return done.exit_code, json.loads(done.stdout), done.stderr


def test_incidents_are_listed_with_place_time_count_and_next_step(db: str, tmp_path: Path) -> None:
    see(db)
    see(db, ranges=(Range(0, 5, 9),))
    see(db, IncidentKind.LOSS, is_over=True)
    code, document, _ = run(db, tmp_path, "incidents", "orders")
    assert code == 0
    (incident,) = document["incidents"]
    assert {name: incident[name] for name in ("pipeline", "kind", "state", "times_seen", "message", "next_step")} == {
        "pipeline": "orders", "kind": "failing_run", "state": "open", "times_seen": 2, "message": "no broker",
        "next_step": "look",
    }  # fmt: skip
    assert incident["ranges"] == [{"partition": 0, "from": 5, "until": 9, "offsets": 4}]
    assert run(db, tmp_path, "incidents", "others")[1] == {"incidents": []}
    both = run(db, tmp_path, "incidents", "--all")[1]["incidents"]
    assert [each["state"] for each in both] == ["ended", "open"]
    shown = CliRunner().invoke(app, ["incidents"], env={"PENSTOCK_DB": db, "PENSTOCK_KAFKA": "k:1"})
    assert "seen 2 times" in shown.stdout
    assert "next:  look" in shown.stdout


def test_a_muted_incident_sends_nothing_but_its_end(db: str, tmp_path: Path, receiver: Receiver) -> None:
    see(db)
    assert send(db, [receiver.url]) == 1
    make_due(db)
    code, document, _ = run(db, tmp_path, "mute", "1", "--for", "2d", "--who", "ada", "--why", "a new broker comes")
    assert (code, document["state"], document["muted_by"]) == (0, "muted", "ada")
    assert send(db, [receiver.url]) == 0
    end(db)
    assert send(db, [receiver.url]) == 1
    assert receiver.messages[-1]["title"] == "Penstock: orders loads again"


def test_a_mute_holds_for_the_same_trouble_when_it_comes_back(db: str, tmp_path: Path, receiver: Receiver) -> None:
    see(db)
    assert run(db, tmp_path, "mute", "1", "--for", "30m", "--why", "known")[0] == 0
    end(db)
    see(db)
    assert send(db, [receiver.url]) == 0
    see(db, IncidentKind.FAILING_STAGE)  # another kind of trouble is not muted
    assert send(db, [receiver.url]) == 1


def test_the_end_of_a_mute_sends_what_waited(db: str, tmp_path: Path, receiver: Receiver) -> None:
    see(db)
    run(db, tmp_path, "mute", "1", "--for", "30m", "--why", "known")
    assert send(db, [receiver.url]) == 0
    code, document, _ = run(db, tmp_path, "unmute", "1", "--why", "it is back", PENSTOCK_ALERTS=receiver.url)
    assert (code, document["state"], document["muted_until"]) == (0, "open", None)
    assert [message["title"] for message in receiver.messages] == ["Penstock: a run of orders failed"]


def test_a_mute_is_an_event_with_who_and_why(db: str, tmp_path: Path) -> None:
    execute(db, "insert into penstock.pipeline (name, topic, target, declaration) values ('orders', 't', 'a.b', '{}')")
    see(db)
    run(db, tmp_path, "mute", "1", "--for", "30m", "--who", "ada", "--why", "known")
    run(db, tmp_path, "unmute", "1", "--who", "bob", "--why", "done")
    assert execute(db, "select actor, what, why from penstock.event order by event_id") == [
        ("ada", "muted incident 1", "known"),
        ("bob", "unmuted incident 1", "done"),
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["1", "--why", "x"], "one of --for and --until is needed"),
        (["1", "--for", "soon", "--why", "x"], "--for soon: not a valid duration"),
        (["1", "--until", "2026-01-31", "--why", "x"], "has no time zone"),
        (["1", "--until", "2020-01-31T00:00:00Z", "--why", "x"], "is not in the future"),
        (["1", "--for", "1d", "--why", " "], "--why is empty"),
        (["4711", "--for", "1d", "--why", "x"], "there is no incident 4711"),
        (["2", "--for", "1d", "--why", "x"], "incident 2 has ended"),
    ],
)
def test_a_mute_needs_an_open_incident_an_end_and_a_reason(
    db: str, tmp_path: Path, arguments: list[str], problem: str
) -> None:
    see(db)
    see(db, IncidentKind.LOSS, is_over=True)
    code, document, _ = run(db, tmp_path, "mute", *arguments)
    assert (code, document["state"]) == (2, "refused")
    assert problem in document["error"]
    assert execute(db, "select from penstock.incident where muted_until is not null") == []


def test_a_failed_run_of_the_command_line_is_sent_by_the_environment(
    db: str, tmp_path: Path, receiver: Receiver
) -> None:
    write_declaration(tmp_path, "topic", alerts="oncall")
    secret = json.dumps({"conn_type": "generic", "password": receiver.url})
    elsewhere = f"json://127.0.0.1:{refused_port()}/hook/s3cr3t-token"
    code, document, printed = run(db, tmp_path, "run", "orders", AIRFLOW_CONN_ONCALL=secret, PENSTOCK_ALERTS=elsewhere)
    assert (code, document["state"]) == (1, "failed")
    assert "s3cr3t" not in printed
    (message,) = receiver.messages
    assert message["title"] == "Penstock: a run of orders failed"
    assert " ".join(document["error"].split()) in message["message"]
    assert "What to do: " in message["message"]
    run(db, tmp_path, "run", "orders", PENSTOCK_ALERTS=receiver.url)
    assert len(receiver.messages) == 1
    assert execute(db, "select times_seen from penstock.incidents") == [(2,)]


def test_a_command_without_receivers_sends_nothing_and_leaves_the_notice(db: str, tmp_path: Path) -> None:
    write_declaration(tmp_path, "topic", alerts="oncall")
    assert run(db, tmp_path, "run", "orders")[0] == 1
    assert execute(db, "select kind, attempts from penstock.notices") == [("opened", 0)]


def test_an_open_incident_is_sent_again_after_the_declared_time_until_it_ends(db: str, receiver: Receiver) -> None:
    see(db, pipeline=declare("topic", alerts=[{"to": "oncall", "remind": "6h"}]))
    see(db, IncidentKind.FAILING_STAGE, pipeline=declare("topic", alerts=[{"to": "oncall", "remind": None}]))
    assert send(db, [receiver.url]) == 2
    waits = """select n.due_at - o.sent_at from penstock.notices n join penstock.notices o using (incident_id, route)
               where n.sent_at is null and o.kind = 'opened'"""
    assert execute(db, waits) == [(timedelta(hours=6),)]
    assert send(db, [receiver.url]) == 0
    for _ in range(2):
        make_due(db)
        see(db)
        assert send(db, [receiver.url]) == 1
    end(db)
    make_due(db)
    assert send(db, [receiver.url]) == 1
    titles = [message["title"] for message in receiver.messages]
    assert titles[2:] == [
        "Penstock: reminder: a run of orders failed",
        "Penstock: reminder: a run of orders failed",
        "Penstock: orders loads again",
    ]
    assert "Seen: 3 times, last at " in receiver.messages[3]["message"]


def test_warnings_of_all_pipelines_come_in_one_message_a_day(db: str, receiver: Receiver) -> None:
    other = declare("topic", name="clicks", alerts="oncall")
    for number in range(30):
        see(db, IncidentKind.FAILED_CHECK, f"check {number}", f"check {number} failed")
    see(db, IncidentKind.FAILED_CHECK, pipeline=other)
    assert send(db, [receiver.url]) == 0
    due = (
        "select distinct due_at > now() and due_at <= now() + '1 day', extract(hour from due_at) from penstock.notices"
    )
    assert execute(db, due) == [(True, 6)]
    end(db, IncidentKind.FAILED_CHECK)
    see(db, IncidentKind.FAILED_CHECK, "check 7", "check 7 failed")
    make_due(db)
    assert send(db, [receiver.url]) == 32
    (message,) = receiver.messages
    assert (message["title"], message["type"]) == ("Penstock: 32 warnings", "warning")
    assert "check 29 failed" in message["message"]
    # The incidents that are still open are in the digest of the next day.
    open_again = "select count(*), min(due_at) > now() from penstock.notices where sent_at is null"
    assert execute(db, open_again) == [(2, True)]


@pytest.mark.parametrize("kind", ["backfill", "replay", "redrive"])
def test_a_warning_of_a_chosen_range_is_an_incident_until_its_load_ends(db: str, kind: Kind) -> None:
    check = {"expect": "expect_column_values_to_be_between", "column": "id", "max_value": 10, "severity": "warning"}
    pipeline = declare("topic", checks=[check], alerts="oncall")
    load_id = stage_rows(db, [Range(0, 0, 20)], pipeline=pipeline, kind=kind)
    assert validate_load(db, load_id).passed
    seen = "select kind, load_id, ranges, next_step, state from penstock.incidents"
    ranges = [{"partition": 0, "from_offset": 0, "until_offset": 20}]
    assert execute(db, seen) == [("failed_check", load_id, ranges, advice.SEE_WARNINGS, "open")]

    assert validate_load(db, stage_rows(db, [Range(1, 0, 5)], pipeline=declare("topic"))).passed
    assert execute(db, "select state from penstock.incidents") == [("open",)]
    discard_load(db, load_id, "ann", "a test")

    assert execute(db, "select state, ended_why from penstock.incidents") == [
        ("ended", "ann decided to discard it: a test")
    ]
    assert execute(db, "select kind from penstock.notices where sent_at is null") == [("digest",)]


def test_routes_divide_notices_by_severity(db: str) -> None:
    routes = [
        {"to": "oncall", "severity": "error"},
        {"to": "mails", "severity": "warning"},
        {"to": "everything"},
    ]
    pipeline = declare("topic", alerts=routes)
    see(db, pipeline=pipeline)
    see(db, IncidentKind.FAILED_CHECK, pipeline=pipeline)
    assert execute(db, "select kind, route from penstock.notices order by 1, 2") == [
        ("digest", "everything"), ("digest", "mails"), ("opened", "everything"), ("opened", "oncall"),
    ]  # fmt: skip
    with Receiver() as oncall, Receiver() as mails, Receiver() as everything:
        urls = {"oncall": [oncall.url], "mails": [mails.url], "everything": [everything.url]}
        make_due(db)
        assert send_due(db, urls.get) == 4
        counts = [len(each.messages) for each in (oncall, mails, everything)]
    assert counts == [1, 1, 2]
    assert oncall.messages[0]["type"] == "failure"
    assert mails.messages[0]["type"] == "warning"


def test_a_mail_server_gets_the_notices_and_the_digest_as_a_person_reads_them(db: str) -> None:
    with Mailbox() as mailbox:
        see(db, ranges=(Range(0, 5, 9),), link="http://localhost:8080/dags/orders/runs/1")
        see(db, IncidentKind.FAILED_CHECK, "amount", "amount: 3 of 100 rows are below 0")
        assert send(db, [mailbox.url]) == 1
        end(db, why="load 18 is published")
        make_due(db)
        assert send(db, [mailbox.url]) == 2
    subjects = [mail["Subject"] for mail in mailbox.mails]
    assert sorted(subjects) == [
        "Penstock: 1 warning",
        "Penstock: a run of orders failed",
        "Penstock: orders loads again",
    ]
    assert mailbox.mails[0]["To"] == "oncall@example.org"
    first = mailbox.texts[0].split("\n")
    for line in (
        "Pipeline: orders",
        "Offsets: partition 0 offsets [5, 9)",
        "Reason: no broker",
        "What to do: look",
        "Run: http://localhost:8080/dags/orders/runs/1",
        "Incident: 1 (for silence: `penstock mute 1 --for 1d --why …`)",
    ):
        assert line in [each.strip() for each in first]
    (digest,) = [text for text in mailbox.texts if "3 of 100 rows" in text]
    assert "orders did not pass a check" in digest


@pytest.mark.parametrize("fault", ["down", "slow", "500"])
def test_a_receiver_with_a_fault_loses_nothing_and_gets_each_notice_once_when_it_works(
    db: str, receiver: Receiver, fault: str
) -> None:
    # With a third notice a sender that continues would fail at the constraint on attempts, which hides what it did.
    for kind in (IncidentKind.FAILING_RUN, IncidentKind.FAILING_STAGE):
        see(db, kind)
    with Silence() as silence:
        receiver.status = 500
        urls = {"down": f"json://127.0.0.1:{refused_port()}/", "slow": silence.url, "500": receiver.url}
        assert send(db, [urls[fault]], seconds=60) == 0
    receiver.messages.clear()
    receiver.status = 200
    # One notice found out that the receiver has a fault. The other one was not tried.
    attempts = "select attempts, last_error is not null from penstock.notices order by notice_id"
    assert execute(db, attempts) == [(1, True), (0, False)]
    assert send(db, [receiver.url]) == 0
    make_due(db)
    assert send(db, [receiver.url]) == 2
    assert len({message["message"] for message in receiver.messages}) == 2
    assert execute(db, "select count(*) from penstock.notices where sent_at is not null and last_error is null") == [
        (2,)
    ]


def test_a_receiver_that_stays_down_is_tried_with_growing_pauses(db: str) -> None:
    see(db)
    pauses = []
    for _ in range(4):
        assert send(db, [f"json://127.0.0.1:{refused_port()}/"]) == 0
        [(pause,)] = execute(db, "select next_attempt_at - now() from penstock.notices")
        pauses.append(round(pause / timedelta(seconds=30)))
        make_due(db)
    assert pauses == [1, 2, 4, 8]
