"""Incidents and their notices: the command line, mutes, reminders, digests and routes, against real services."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from typer.testing import CliRunner

from declaring import declare, write_declaration
from noticing import send
from penstock.cli.main import app
from penstock.ledger.connection import connect
from penstock.ledger.incident import end_incidents, see_incident
from penstock.model.incident import IncidentKind, Sighting
from penstock.model.ranges import Range
from privileges import superuser
from receiving import Receiver, refused_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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
    db: str, kind: IncidentKind = IncidentKind.FAILING_RUN, key: str = "live", message: str = "no broker", **more: Any
) -> None:
    with connect(db) as connection:
        see_incident(connection, Sighting("orders", kind, key, message, "look", **more), ALERTED.routes)


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
        (["1", "--for", "soon", "--why", "x"], "soon is not a duration"),
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
