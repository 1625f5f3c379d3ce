"""Holds of a pipeline, in the caller's transaction: the log contradicts the positions, and a person decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from penstock.errors import HoldKind
    from penstock.ledger.connection import Connection

_statements = Statements("ledger/hold")


def begin_hold(connection: Connection, pipeline_id: int, kind: HoldKind, cause: str) -> None:
    """Hold a pipeline. An open hold of the same kind continues; a hold of another kind is ended first."""
    if _statements.execute(connection, "renew_hold", pipeline_id=pipeline_id, kind=kind, cause=cause) == 0:
        end_hold(connection, pipeline_id, None)
        _statements.execute(connection, "begin_hold", pipeline_id=pipeline_id, kind=kind, cause=cause)


def end_hold(connection: Connection, pipeline_id: int, ended_by: str | None) -> None:
    """End the open hold of a pipeline, if there is one."""
    _statements.execute(connection, "end_hold", pipeline_id=pipeline_id, ended_by=ended_by)
