"""The outbox of alerts: the ledger knows which alerts are due, and lets each be delivered once.

The ledger holds the events from which alerts are due, so an alert is not lost with the process that caused it: the next
run of the pipeline sends the alerts that a dead process, a command line or an unreachable receiver left.

An event in the ledger records that an alert was delivered, and a unique index allows one event of each kind for a load,
or for a hold of a pipeline; a loss has a mark of its own. The claim of an alert is that row, uncommitted: the alert is
sent while the transaction is open, and the transaction is committed only if a receiver took the alert. So
- a task that is tried again, cleared, or run twice at once sends nothing twice: the second run waits for the first, at
  most as long as sending may take, and then finds its row;
- an unreachable receiver gets the alert from the next run, because nothing was committed;
- if a process dies between the delivery and its COMMIT, the alert is sent a second time: a duplicate is better than a
  lost alert.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import psycopg

from penstock import advice
from penstock.alerts.alert import Alert
from penstock.alerts.delivery import send_alert
from penstock.errors import PenstockError, name_ranges
from penstock.ledger.alert import (
    claim_hold_alert,
    claim_load_alert,
    claim_loss_alert,
    find_due_holds,
    find_due_losses,
)
from penstock.ledger.connection import connect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.alerts.alert import AlertKind
    from penstock.ledger.alert import DueHold, DueLoss
    from penstock.ledger.connection import Connection

log = logging.getLogger(__name__)


def find_due(connection: Connection, pipeline: str, link: str | None = None) -> list[Alert]:
    """Find the alerts about a pipeline itself that are due: begun and ended holds, and recorded losses."""
    holds = find_due_holds(connection, pipeline)
    losses = find_due_losses(connection, pipeline)
    return [
        *(_make_hold_alert(pipeline, hold, link) for hold in holds),
        *([_make_loss_alert(pipeline, losses, link)] if losses else []),
    ]


def _make_hold_alert(pipeline: str, hold: DueHold, link: str | None) -> Alert:
    if hold.ended:
        ended_by = hold.ended_by or ""
        return Alert(pipeline, "hold_ended", ended_by, advice.PIPELINE_CONTINUES, link=link, hold=hold.hold_id)
    next_step = advice.resolve_hold(hold.kind, pipeline)
    return Alert(pipeline, "hold_began", hold.cause, next_step, link=link, hold=hold.hold_id)


def _make_loss_alert(pipeline: str, losses: list[DueLoss], link: str | None) -> Alert:
    """Make one alert for all losses: partitions lose their records together."""
    return Alert(
        pipeline,
        "loss_recorded",
        name_ranges([loss.reason for loss in losses]),
        advice.ACCEPT_OR_PREVENT_LOSS,
        ranges=tuple(loss.range for loss in losses),
        link=link,
        losses=tuple(loss.loss_id for loss in losses),
    )


def alert_once(db_uri: str, urls: Sequence[str], alert: Alert, seconds: float = 10) -> bool:
    """Send an alert unless it was delivered before; return whether it was delivered now. Never raises."""
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
    """Claim the right to send an alert: False if it was delivered before, or if its event is over or never was.

    The caller commits if the alert is delivered; otherwise it rolls back, so that the alert can be claimed again.
    """
    return claim_load_alert(connection, load, kind)
