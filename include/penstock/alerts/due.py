"""News of a pipeline that nobody has been told yet: holds that began or ended, losses that were recorded by themselves.

They are found in the ledger, not handed on by whoever caused them: what a process that died, a command line, or a
receiver that was down left untold, the next run tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import advice
from penstock.alerts.outbox import Alert
from penstock.errors import name_ranges
from penstock.ledger.hold import query
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.ledger.connection import Connection


def find_untold(connection: Connection, pipeline: str, link: str | None = None) -> list[Alert]:
    """Find the alerts of a pipeline that are due."""
    holds = query(connection, "find_untold_holds", pipeline=pipeline).fetchall()
    losses = query(connection, "find_untold_losses", pipeline=pipeline).fetchall()
    return [
        *(_make_hold_alert(pipeline, row, link) for row in holds),
        *([_make_loss_alert(pipeline, losses, link)] if losses else []),
    ]


def _make_hold_alert(pipeline: str, row: Mapping[str, Any], link: str | None) -> Alert:
    if row["ended"]:
        return Alert(pipeline, "hold_ended", row["ended_by"], advice.PIPELINE_CONTINUES, link=link, hold=row["hold_id"])
    next_step = advice.resolve_hold(row["kind"], pipeline)
    return Alert(pipeline, "hold_began", row["cause"], next_step, link=link, hold=row["hold_id"])


def _make_loss_alert(pipeline: str, rows: list[dict[str, Any]], link: str | None) -> Alert:
    """One alert for all of them: partitions lose their records together."""
    return Alert(
        pipeline,
        "loss_recorded",
        name_ranges([row["reason"] for row in rows]),
        advice.ACCEPT_OR_PREVENT_LOSS,
        ranges=tuple(Range(row["partition"], row["from_offset"], row["until_offset"]) for row in rows),
        link=link,
        losses=tuple(row["loss_id"] for row in rows),
    )
