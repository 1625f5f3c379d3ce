"""Alerts: what people are told when a load or a pipeline is held, goes on, or failed, or a loss was recorded.

Apprise brings it to mail, Slack, webhooks, …. One alert when a hold begins, and one when it ends. The ledger keeps
that: an event says that an alert was delivered, and a unique index lets one of each kind in for a load, or for a hold
of a pipeline; a loss is marked as told. The claim is a row that is not committed yet: the alert is sent
while the transaction is open, which is committed only if somebody took it. So
- a task that is tried again, cleared or run twice at once sends nothing twice: the second waits for the first, at most
  as long as sending may take, and then finds its row;
- a receiver that is down gets the alert by the next run that meets the hold, since nothing was committed;
- a process that dies between the delivery and its COMMIT lets the alert be sent a second time: rather twice than never.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import psycopg

from penstock import advice
from penstock.errors import PenstockError, WrongUseError, name_ranges
from penstock.ledger.alert import claim_hold_alert, claim_load_alert, claim_loss_alert
from penstock.ledger.connection import Connection, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from apprise import NotifyBase

    from penstock.model.ranges import Range

log = logging.getLogger(__name__)

AlertKind = Literal["hold_began", "hold_ended", "load_failed", "loss_recorded", "audit_failed", "leaves_left_out"]
HEADINGS: dict[AlertKind, str] = {
    "hold_began": "is held",
    "hold_ended": "is no longer held",
    "load_failed": "failed",
    "loss_recorded": "has lost records, and goes on without them",
    "audit_failed": "did not pass its audit",
    "leaves_left_out": "has partitions that cannot be merged",
}
# Loggers that tell the addresses they talk to, tokens included.
TALKATIVE = ("apprise", "urllib3.connectionpool", "requests")


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that a person has to know. `link` leads to the run; `load` is None if none was planned yet.

    What is about the pipeline itself names its hold, or its losses.
    """

    pipeline: str
    kind: AlertKind
    reason: str
    next_step: str
    load: int | None = None
    ranges: tuple[Range, ...] = ()
    link: str | None = None
    hold: int | None = None
    losses: tuple[int, ...] = ()


def render_title(alert: Alert) -> str:
    """Say in one line what happened."""
    if alert.hold is not None or alert.losses or alert.kind in ("audit_failed", "leaves_left_out"):
        return f"Penstock: {alert.pipeline} {HEADINGS[alert.kind]}"
    what = f"load {alert.load}" if alert.load is not None else "a run"
    return f"Penstock: {what} of {alert.pipeline} {HEADINGS[alert.kind]}"


def render_body(alert: Alert) -> str:
    """Say what a person needs to act, in plain text."""
    ranges = name_ranges(alert.ranges) or ("" if alert.hold is not None else "none planned")
    told = {
        "Pipeline": alert.pipeline,
        "Load": "none" if alert.load is None else str(alert.load),
        "Offsets": ranges,
        "Reason": alert.reason,
        "What to do": alert.next_step,
        "Run": alert.link,
    }
    return "\n".join(f"{name}: {' '.join(value.split())}" for name, value in told.items() if value)


def alert_once(db_uri: str, urls: Sequence[str], alert: Alert, seconds: float = 10) -> bool:
    """Send an alert unless it was delivered before; whether it was delivered now. Never raises."""
    if (alert.load is None and alert.hold is None and not alert.losses) or not urls:
        return send_alert(urls, alert, seconds)
    try:
        with connect(db_uri) as connection:
            delivered = _claim(connection, alert) and send_alert(urls, alert, seconds)
            if not delivered:
                connection.rollback()
            return delivered
    except (psycopg.Error, PenstockError) as error:
        log.warning("the alert %s of %s was not sent: %s", alert.kind, alert.pipeline, type(error).__name__)
        return False


def _claim(connection: Connection, alert: Alert) -> bool:
    if alert.hold is not None:
        return claim_hold_alert(connection, alert.hold, alert.kind)
    if alert.losses:
        return claim_loss_alert(connection, alert.losses)
    return alert.load is not None and claim_alert(connection, alert.load, alert.kind)


def claim_alert(connection: Connection, load: int, kind: AlertKind) -> bool:
    """Claim the right to send an alert: False if it was delivered before, or is not true (any more).

    The caller commits when it is delivered, and rolls back when it is not, so that it can be claimed again.
    """
    return claim_load_alert(connection, load, kind)


def send_alert(urls: Sequence[str], alert: Alert, seconds: float = 10) -> bool:
    """Send an alert to all targets side by side; whether at least one of them took it. Never raises.

    It returns after `seconds` whatever the receivers do: each target has a daemon thread of its own, which a process
    that ends does not wait for.
    """
    services = [_open_service(url) for url in urls]
    delivered = [False] * len(urls)

    def deliver(place: int) -> None:
        delivered[place] = _deliver(services[place], alert)

    deadline = time.monotonic() + seconds
    threads = [_start(deliver, place) for place in range(len(urls))]
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    taken = list(delivered)
    for place, (url, arrived) in enumerate(zip(urls, taken, strict=True), start=1):
        if not arrived:
            log.warning("the alert was not delivered to target %d of %d (%s)", place, len(urls), _name_service(url))
    return any(taken)


def _start(work: Callable[[int], None], place: int) -> threading.Thread:
    thread = threading.Thread(target=work, args=(place,), name=f"penstock-alert-{place}", daemon=True)
    thread.start()
    return thread


def _open_service(url: str) -> NotifyBase | None:
    """Make apprise understand a URL; None if it cannot. Its import warns of deprecations of its own."""
    try:
        with warnings.catch_warnings(action="ignore"), _quiet():
            import apprise

            return apprise.Apprise.instantiate(url, suppress_exceptions=True)
    except Exception as error:
        log.warning("apprise refused a target (%s): %s", _name_service(url), type(error).__name__)
        return None


def _deliver(service: NotifyBase | None, alert: Alert) -> bool:
    try:
        with _quiet():
            # Asked directly, and not through an Apprise object: its worker threads would keep the process from ending.
            type_ = "success" if alert.kind == "hold_ended" else "failure"
            title, body = render_title(alert), render_body(alert)
            return bool(service and service.notify(body=body, title=title, notify_type=type_))
    except Exception as error:  # a receiver never fails a load
        # Its text may hold the address, and the address holds a token.
        log.warning("sending an alert raised %s", type(error).__name__)
        return False


_talking: ContextVar[bool] = ContextVar("talking to receivers of alerts", default=False)


class _NotToReceivers(logging.Filter):
    """Lets through what others say: what these loggers say while an alert is sent may hold its address."""

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002
        return not _talking.get()


_FILTER = _NotToReceivers()


@contextmanager
def _quiet() -> Iterator[None]:
    for name in TALKATIVE:
        logging.getLogger(name).addFilter(_FILTER)  # adding it again changes nothing
    token = _talking.set(True)
    try:
        yield
    finally:
        _talking.reset(token)


def _name_service(url: str) -> str:
    """The kind of service, the only part of an apprise URL that is no secret."""
    scheme, separator, _ = url.partition("://")
    return scheme if separator and scheme.isalnum() else "no apprise URL"


def read_alert_targets(
    password: str | None = None, host: str | None = None, extra: Mapping[str, Any] | None = None
) -> list[str]:
    """Read the apprise URLs of an Airflow connection, given as plain values; an empty list if it names none.

    They stand in its password, which Airflow hides, separated by blanks or lines; in `urls` of its extra (a list, or
    text like the password); or, if there is but one, in its host.
    """
    given = (extra or {}).get("urls") or ()
    named = given.split() if isinstance(given, str) else [str(url).strip() for url in given]
    found = [*(password or "").split(), *named, *(part for part in (host or "").split() if "://" in part)]
    wrong = [place for place, url in enumerate(found, start=1) if "://" not in url]
    if wrong:
        raise WrongUseError(
            f"target {wrong[0]} of the alerts' connection is no apprise URL.",
            next_step=advice.WRITE_ALERT_TARGET,
        )
    return list(dict.fromkeys(found))
