"""News of a pipeline that nobody has been told yet: holds that began or ended, losses that were recorded by themselves.

They are found in the ledger, not handed on by whoever caused them: what a process that died, a command line, or a
receiver that was down left untold, the next run tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import advice
from penstock.alerts.outbox import Alert
from penstock.errors import name_ranges
from penstock.ledger.alert import find_due_holds, find_due_losses

if TYPE_CHECKING:
    from penstock.ledger.alert import DueHold, DueLoss
    from penstock.ledger.connection import Connection


def find_untold(connection: Connection, pipeline: str, link: str | None = None) -> list[Alert]:
    """Find the alerts of a pipeline that are due."""
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
    """One alert for all of them: partitions lose their records together."""
    return Alert(
        pipeline,
        "loss_recorded",
        name_ranges([loss.reason for loss in losses]),
        advice.ACCEPT_OR_PREVENT_LOSS,
        ranges=tuple(loss.range for loss in losses),
        link=link,
        losses=tuple(loss.loss_id for loss in losses),
    )
