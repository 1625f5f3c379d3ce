"""Holds of a pipeline, in the caller's transaction: the log does not fit what was loaded, and a person decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.ledger.statements import Room

if TYPE_CHECKING:
    from penstock.errors import HoldKind
    from penstock.ledger.connection import Connection

query = Room("ledger/hold").run


def begin_hold(connection: Connection, pipeline_id: int, kind: HoldKind, cause: str) -> None:
    """Hold a pipeline. Found so again it is the same hold; for something else it is another one."""
    if query(connection, "renew_hold", pipeline_id=pipeline_id, kind=kind, cause=cause).rowcount == 0:
        end_hold(connection, pipeline_id, None)
        query(connection, "begin_hold", pipeline_id=pipeline_id, kind=kind, cause=cause)


def end_hold(connection: Connection, pipeline_id: int, ended_by: str | None) -> None:
    """End the hold of a pipeline, if it is held."""
    query(connection, "end_hold", pipeline_id=pipeline_id, ended_by=ended_by)
