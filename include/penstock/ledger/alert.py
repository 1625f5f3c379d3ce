"""Alerts that are due, and the right to send each of them once, in the caller's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ledger.statements import Statements
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.errors import HoldKind
    from penstock.ledger.connection import Connection

_statements = Statements("ledger/alert")


@dataclass(frozen=True, slots=True)
class DueHold:
    """A hold of a pipeline with an alert that is due: of its end if it has ended, of its begin otherwise."""

    hold_id: int
    kind: HoldKind
    cause: str
    ended_by: str | None
    ended: bool


@dataclass(frozen=True, slots=True)
class DueLoss:
    """A loss that no alert has reported."""

    loss_id: int
    partition: int
    from_offset: int
    until_offset: int
    reason: str

    @property
    def range(self) -> Range:
        """The lost offsets."""
        return Range(self.partition, self.from_offset, self.until_offset)


def find_due_holds(connection: Connection, pipeline: str) -> list[DueHold]:
    """Find the holds of a pipeline with an alert that is due."""
    return _statements.fetch_all(connection, DueHold, "find_due_holds", pipeline=pipeline)


def find_due_losses(connection: Connection, pipeline: str) -> list[DueLoss]:
    """Find the losses of a pipeline with an alert that is due."""
    return _statements.fetch_all(connection, DueLoss, "find_due_losses", pipeline=pipeline)


def claim_load_alert(connection: Connection, load_id: int, kind: str) -> bool:
    """Claim the right to send an alert of a load; False if it was delivered before, or is no longer true."""
    return _statements.execute(connection, "claim_load_alert", load_id=load_id, kind=kind) == 1


def claim_hold_alert(connection: Connection, hold_id: int, kind: str) -> bool:
    """Claim the right to send an alert of a hold; False if it was delivered before, or is no longer true."""
    return _statements.execute(connection, "claim_hold_alert", hold_id=hold_id, kind=kind) == 1


def claim_loss_alert(connection: Connection, loss_ids: Sequence[int]) -> bool:
    """Claim the right to report losses; False if one of them was reported before."""
    return _statements.execute(connection, "claim_loss_alert", loss_ids=list(loss_ids)) == len(loss_ids)
