"""Holds of a pipeline, in the caller's transaction: the log contradicts the positions, and a person decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.ledger.incident import end_incidents, see_incident
from penstock.ledger.statements import Statements
from penstock.model.incident import HOLDS, IncidentKind, Sighting

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.errors import LogLostError
    from penstock.ledger.connection import Connection

_statements = Statements("ledger/hold")


def begin_hold(connection: Connection, pipeline_id: int, pipeline: Pipeline, error: LogLostError) -> None:
    """Hold a pipeline. An open hold of the same kind continues; a hold of another kind is ended first."""
    where = {"pipeline_id": pipeline_id, "kind": error.hold, "cause": error.what}
    if _statements.execute(connection, "renew_hold", **where) == 0:
        end_hold(connection, pipeline_id, None)
        _statements.execute(connection, "begin_hold", **where)
    sighting = Sighting(
        pipeline.name,
        IncidentKind.OTHER_TOPIC if error.hold == "other_topic" else IncidentKind.BLOCKED_PIPELINE,
        error.hold,
        error.what,
        error.next_step,
        ranges=error.ranges,
    )
    see_incident(connection, sighting, pipeline.alerts)


def end_hold(connection: Connection, pipeline_id: int, ended_by: str | None, who: str = "penstock") -> None:
    """End the open hold of a pipeline, if there is one."""
    ended = _statements.fetch_values(connection, str, "end_hold", pipeline_id=pipeline_id, ended_by=ended_by)
    for pipeline in ended:
        end_incidents(connection, pipeline, HOLDS, None, by=who, why=ended_by)
