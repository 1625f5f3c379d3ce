"""Cancelling a backfill: its open loads are discarded, and published loads stay."""

from __future__ import annotations

from dataclasses import dataclass

from penstock import advice
from penstock.errors import WrongUseError
from penstock.ledger import backfill as ledger_backfill
from penstock.ledger.connection import open_ledger
from penstock.ledger.event import record_pipeline_event, require_reason
from penstock.ledger.incident import end_incidents
from penstock.ledger.load import read_load
from penstock.ledger.pipeline import lock_pipeline
from penstock.load.publish import sweep_old_attempts
from penstock.model.incident import key_of_load


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A cancelled backfill with the loads that were discarded."""

    backfill: int
    pipeline: str
    loads: tuple[int, ...]

    @property
    def message(self) -> str:
        """The cancellation in words."""
        count = len(self.loads)
        return (
            f"{self.pipeline}: backfill {self.backfill} is cancelled; {count} open {'load' if count == 1 else 'loads'} "
            f"discarded, and what is published stays."
        )


def cancel_backfill(uri: str, backfill_id: int, who: str, why: str, pipeline: str | None = None) -> Cancelled:
    """Discard the open and failed loads of a backfill, in one transaction.

    `pipeline` refuses the backfill of another one.
    """
    require_reason(who, why, pipeline=pipeline)
    with open_ledger(uri) as connection:
        owner = ledger_backfill.read_backfill(connection, backfill_id)
        if owner is None or pipeline not in (None, owner.pipeline):
            of = f" of {pipeline}" if pipeline else ""
            raise WrongUseError(f"there is no backfill {backfill_id}{of}.", next_step=advice.LIST_BACKFILLS)
        # A publish holds the same lock, so a load is published before the decision or not at all.
        pipeline_id = lock_pipeline(connection, owner.pipeline) or 0
        loads = ledger_backfill.cancel_backfill(connection, backfill_id, who, why)
        if loads:
            reason = f"{who} cancelled backfill {backfill_id}: {why}"
            end_incidents(connection, owner.pipeline, None, [key_of_load(load) for load in loads], by=who, why=reason)
            record_pipeline_event(connection, who, pipeline_id, f"cancelled backfill {backfill_id}", why)
        connection.commit()
        if loads:
            sweep_old_attempts(connection, read_load(connection, loads[0]))
    return Cancelled(backfill_id, owner.pipeline, tuple(loads))
