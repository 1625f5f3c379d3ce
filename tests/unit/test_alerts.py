"""The text of alerts, and their delivery: no receiver fails or delays the process that sends an alert."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.alerts.alert import Alert, render_body, render_title
from penstock.alerts.delivery import read_alert_targets, send_alert
from penstock.errors import WrongUseError
from penstock.model.ranges import Range
from receiving import Receiver, Silence, refused_port

if TYPE_CHECKING:
    from collections.abc import Iterator

ALERT = Alert(
    pipeline="orders",
    kind="hold_began",
    reason="expect_offsets_to_be_accounted_for partition 2: planned 500,\n rows 498",
    next_step="`penstock approve 17 --why …` or `penstock discard 17 --why …`",
    load=17,
    ranges=(Range(0, 0, 500), Range(2, 7, 9)),
    link="http://localhost:8080/dags/orders/runs/1",
)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started


def test_an_alert_names_pipeline_load_offsets_reason_next_step_and_link() -> None:
    assert render_title(ALERT) == "Penstock: load 17 of orders is held"
    assert render_body(ALERT).splitlines() == [
        "Pipeline: orders",
        "Load: 17",
        "Offsets: partition 0 offsets [0, 500); partition 2 offsets [7, 9)",
        "Reason: expect_offsets_to_be_accounted_for partition 2: planned 500, rows 498",
        "What to do: `penstock approve 17 --why …` or `penstock discard 17 --why …`",
        "Run: http://localhost:8080/dags/orders/runs/1",
    ]


def test_an_alert_without_a_load_says_so_and_leaves_the_link_out() -> None:
    alert = Alert("orders", "load_failed", "the log lost data", "look at the topic")
    assert render_title(alert) == "Penstock: a run of orders failed"
    assert render_body(alert).splitlines() == [
        "Pipeline: orders",
        "Load: none",
        "Offsets: none planned",
        "Reason: the log lost data",
        "What to do: look at the topic",
    ]


def test_an_alert_of_a_hold_names_no_offsets_and_one_of_a_loss_names_them() -> None:
    held = Alert("orders", "hold_began", "the log was truncated", "adopt it", hold=3)
    assert render_title(held) == "Penstock: orders is held"
    assert "Offsets" not in render_body(held)
    lost = Alert("orders", "loss_recorded", "retention", "nothing", ranges=(Range(0, 0, 6),), losses=(1, 2))
    assert render_title(lost) == "Penstock: orders has lost records, and continues without them"
    assert "Offsets: partition 0 offsets [0, 6)" in render_body(lost)


def test_a_webhook_gets_the_alert_as_json(receiver: Receiver) -> None:
    assert send_alert([receiver.url], ALERT)
    (message,) = receiver.messages
    assert message["title"] == render_title(ALERT)
    assert message["message"] == render_body(ALERT)
    assert message["type"] == "failure"


def test_sending_gives_up_after_the_timeout_of_a_silent_receiver() -> None:
    with Silence() as silence:
        assert not send_alert([silence.url, silence.url], ALERT, seconds=0.5)


def test_a_silent_receiver_does_not_keep_a_process_from_ending() -> None:
    code = (
        "import sys; from penstock.alerts.alert import Alert; from penstock.alerts.delivery import send_alert; "
        "print(send_alert([sys.argv[1]], Alert('orders', 'load_failed', 'r', 'n'), seconds=2))"
    )
    with Silence() as silence:
        argv = [sys.executable, "-c", code, silence.url]
        done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("url", ["json://127.0.0.1:{port}/", "nonsense", "json://", "gone://host/s3cr3t-token", ""])
def test_an_unreachable_or_invalid_target_raises_no_error(url: str) -> None:
    assert not send_alert([url.format(port=refused_port())], ALERT, seconds=10)


def test_an_alert_is_delivered_if_one_of_its_targets_takes_it(receiver: Receiver) -> None:
    with Silence() as silence:
        assert send_alert([silence.url, "nonsense", receiver.url], ALERT, seconds=2)
    assert len(receiver.messages) == 1


def test_an_alert_without_targets_is_not_delivered() -> None:
    assert not send_alert([], ALERT)


def test_no_log_holds_a_token_of_a_target(
    receiver: Receiver, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("apprise", "urllib3.connectionpool"):
        caplog.set_level(logging.DEBUG, logger=name)
    refused = f"json://127.0.0.1:{refused_port()}/hook/s3cr3t-token"
    assert send_alert([receiver.url], ALERT)
    assert not send_alert([refused, "gone://host/s3cr3t-token", "s3cr3t-token"], ALERT)
    logged = caplog.text + "".join(capfd.readouterr())
    assert "not delivered to target 1 of 3 (json)" in logged
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
