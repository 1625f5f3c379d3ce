"""The text of alerts, and their delivery: no receiver fails or delays the process that sends an alert."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from noticing import BEGAN, make_notice
from penstock.alerts.delivery import read_alert_targets, send_message
from penstock.alerts.message import MOST_LISTED, write_digest, write_notice
from penstock.alerts.routes import find_routes
from penstock.errors import WrongUseError
from penstock.model.incident import IncidentKind
from penstock.model.ranges import Range
from receiving import Receiver, Silence, refused_port

if TYPE_CHECKING:
    from collections.abc import Iterator

HELD = make_notice(
    kind=IncidentKind.HELD_LOAD,
    message="expect_offsets_to_be_accounted_for partition 2: planned 500,\n rows 498",
    next_step="`penstock approve 17 --why …` or `penstock discard 17 --why …`",
    load=17,
    ranges=(Range(0, 0, 500), Range(2, 7, 9)),
    link="http://localhost:8080/dags/orders/runs/1",
)
MESSAGE = write_notice(HELD)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started


def test_a_notice_names_pipeline_load_offsets_reason_next_step_time_and_link() -> None:
    assert MESSAGE.title == "Penstock: load 17 of orders is held"
    assert MESSAGE.body.splitlines() == [
        "Pipeline: orders",
        "Load: 17",
        "Offsets: partition 0 offsets [0, 500); partition 2 offsets [7, 9)",
        "Reason: expect_offsets_to_be_accounted_for partition 2: planned 500, rows 498",
        "What to do: `penstock approve 17 --why …` or `penstock discard 17 --why …`",
        "Since: 2026-11-19 10:00:00 UTC",
        "Run: http://localhost:8080/dags/orders/runs/1",
        "Incident: 12 (for silence: `penstock mute 12 --for 1d --why …`)",
    ]


def test_a_notice_without_a_load_says_so_and_leaves_the_link_out() -> None:
    message = write_notice(make_notice(message="the log lost data", next_step="look at the topic"))
    assert message.title == "Penstock: a run of orders failed"
    assert message.body.splitlines() == [
        "Pipeline: orders",
        "Load: none",
        "Offsets: none planned",
        "Reason: the log lost data",
        "What to do: look at the topic",
        "Since: 2026-11-19 10:00:00 UTC",
        "Incident: 12 (for silence: `penstock mute 12 --for 1d --why …`)",
    ]


def test_a_reminder_says_how_often_the_incident_was_seen() -> None:
    message = write_notice(make_notice(notice="reminder", times_seen=7, last_seen_at=BEGAN.replace(hour=16)))
    assert message.title == "Penstock: reminder: a run of orders failed"
    assert "Seen: 7 times, last at 2026-11-19 16:00:00 UTC" in message.body.splitlines()


def test_the_notice_of_an_end_says_how_it_ended_and_what_it_was() -> None:
    ended = {"notice": "ended", "ended_at": BEGAN.replace(hour=11), "ended_why": "load 18 is published", "load": 17}
    message = write_notice(make_notice(message="no broker", **ended))
    assert (message.title, message.type) == ("Penstock: orders loads again", "success")
    assert "Reason: load 18 is published. It was: no broker" in message.body
    assert "Ended: 2026-11-19 11:00:00 UTC" in message.body
    assert write_notice(make_notice(kind=IncidentKind.HELD_LOAD, **ended)).title == (
        "Penstock: load 17 of orders is no longer held"
    )


def test_a_notice_of_a_hold_names_no_offsets_and_one_of_a_loss_names_them() -> None:
    held = write_notice(make_notice(kind=IncidentKind.BLOCKED_PIPELINE))
    assert held.title == "Penstock: orders is held"
    assert "Offsets" not in held.body
    lost = write_notice(make_notice(kind=IncidentKind.LOSS, ranges=(Range(0, 0, 6),)))
    assert lost.title == "Penstock: orders has lost records, and continues without them"
    assert "Offsets: partition 0 offsets [0, 6)" in lost.body


@pytest.mark.parametrize("kind", IncidentKind)
def test_every_kind_of_incident_has_a_title_for_its_begin_and_its_end(kind: IncidentKind) -> None:
    began, ended = (write_notice(make_notice(kind=kind, load=1, notice=notice)) for notice in ("opened", "ended"))
    assert began.title != ended.title


def test_a_digest_lists_each_warning_once_and_a_limited_number() -> None:
    warnings = [make_notice(kind=IncidentKind.FAILED_CHECK, notice="digest", incident_id=n % 60) for n in range(120)]
    message = write_digest(warnings)
    assert (message.title, message.type) == ("Penstock: 60 warnings", "warning")
    assert message.body.count("Pipeline: orders") == MOST_LISTED
    assert message.body.endswith("and 10 more: see penstock.incidents")


def test_a_webhook_gets_the_alert_as_json(receiver: Receiver) -> None:
    assert send_message([receiver.url], MESSAGE) is None
    (message,) = receiver.messages
    assert message["title"] == MESSAGE.title
    assert message["message"] == MESSAGE.body
    assert message["type"] == "failure"


def test_sending_gives_up_after_the_timeout_of_a_silent_receiver() -> None:
    with Silence() as silence:
        error = send_message([silence.url, silence.url], MESSAGE, seconds=0.5)
    assert error == "target 1 of 2 (json): no answer in 0.5 s; target 2 of 2 (json): no answer in 0.5 s"


def test_a_silent_receiver_does_not_keep_a_process_from_ending() -> None:
    code = (
        "import sys; from penstock.alerts.message import Message; from penstock.alerts.delivery import send_message; "
        "print(send_message([sys.argv[1]], Message('t', 'b', 'failure'), seconds=2))"
    )
    with Silence() as silence:
        argv = [sys.executable, "-c", code, silence.url]
        done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "target 1 of 1 (json): no answer in 2 s\n"


@pytest.mark.parametrize("url", ["json://127.0.0.1:{port}/", "nonsense", "json://", "gone://host/s3cr3t-token", ""])
def test_an_unreachable_or_invalid_target_raises_no_error(url: str) -> None:
    assert send_message([url.format(port=refused_port())], MESSAGE, seconds=10)


def test_an_alert_is_delivered_if_one_of_its_targets_takes_it(receiver: Receiver) -> None:
    with Silence() as silence:
        assert send_message([silence.url, "nonsense", receiver.url], MESSAGE, seconds=2) is None
    assert len(receiver.messages) == 1


def test_an_alert_without_targets_is_not_delivered() -> None:
    assert send_message([], MESSAGE) == "the connection names no target"


def test_no_log_holds_a_token_of_a_target(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("apprise", "urllib3.connectionpool"):
        caplog.set_level(logging.DEBUG, logger=name)
    refused = f"json://127.0.0.1:{refused_port()}/hook/s3cr3t-token"
    assert send_message([receiver.url], MESSAGE) is None
    error = send_message([refused, "gone://host/s3cr3t-token", "s3cr3t-token"], MESSAGE)
    assert "s3cr3t" not in str(error)
    logged = caplog.text + "".join(capfd.readouterr())
    assert "not delivered to target 1 of 3 (json): refused" in logged
    assert "s3cr3t-token" not in logged


def test_targets_are_read_from_password_extra_and_host() -> None:
    assert read_alert_targets() == []
    assert read_alert_targets("json://a/b  slack://x/y/z\nmailto://u:p@h") == ["json://a/b", "slack://x/y/z",
                                                                               "mailto://u:p@h"]  # fmt: skip
    assert read_alert_targets("json://a", "json://b", {"urls": ["json://c", "json://a"]}) == ["json://a", "json://c",
                                                                                              "json://b"]  # fmt: skip
    assert read_alert_targets(extra={"urls": "json://c json://d"}) == ["json://c", "json://d"]
    assert read_alert_targets(host="smtp.example.org") == []


def test_an_invalid_target_is_refused_and_its_text_is_not_shown() -> None:
    with pytest.raises(WrongUseError, match="target 2") as caught:
        read_alert_targets("json://a s3cr3t-token")
    assert "s3cr3t" not in str(caught.value)


def test_receivers_without_airflow_come_from_the_environment() -> None:
    assert find_routes({}) is None
    oncall = {"conn_type": "generic", "password": "json://c", "extra": json.dumps({"urls": ["json://d"]})}
    find = find_routes(
        {
            "PENSTOCK_ALERTS": "json://a json://b",
            "AIRFLOW_CONN_ONCALL": json.dumps(oncall),
            "AIRFLOW_CONN_MAILS": "generic://:mailto%3A%2F%2Fu%3Ap%40host@",
        }
    )
    assert find is not None
    assert find("oncall") == ["json://c", "json://d"]
    assert find("mails") == ["mailto://u:p@host"]
    assert find("others") == ["json://a", "json://b"]
    only = find_routes({"AIRFLOW_CONN_ONCALL": "generic://:json%3A%2F%2Fc@"})
    assert only is not None
    assert only("others") is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('{"password": s3cr3t', "AIRFLOW_CONN_ONCALL begins like JSON"),
        ('{"password": "json://c", "extra": "s3cr3t"}', "`extra` of AIRFLOW_CONN_ONCALL begins like JSON"),
        ('{"password": "json://c", "extra": ["s3cr3t"]}', "`extra` of AIRFLOW_CONN_ONCALL"),
        ('{"password": "json://c", "extra": "[1]"}', "`extra` of AIRFLOW_CONN_ONCALL is not an object"),
        ('{"password": ["s3cr3t"]}', "target 1 of the alerts' connection"),
        ("slack://TOK[s3cr3t]@h", "AIRFLOW_CONN_ONCALL is not a URI"),
        ("generic://:s3cr3t[en@h", "AIRFLOW_CONN_ONCALL is not a URI"),
    ],
)
def test_an_invalid_connection_in_the_environment_is_refused_and_not_shown(value: str, message: str) -> None:
    find = find_routes({"AIRFLOW_CONN_ONCALL": value})
    assert find is not None
    with pytest.raises(WrongUseError, match=message) as caught:
        find("oncall")
    assert "s3cr3t" not in f"{caught.value} {caught.value.__cause__}"
