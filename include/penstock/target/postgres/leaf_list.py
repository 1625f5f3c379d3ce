"""What maintenance has to know of a pipeline: its leaves, and the loads that are not finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.ledger.statements import Room
from penstock.target.postgres.levels import Leaf
from penstock.target.postgres.table import target_identifier

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection

query = Room("ledger/maintenance").run


def find_pipeline_id(connection: Connection, pipeline: Pipeline) -> int | None:
    """The pipeline's number in the ledger; None if it has planned nothing yet."""
    row = query(connection, "find_pipeline", name=pipeline.name).fetchone()
    return int(row["pipeline_id"]) if row else None


def read_leaves(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> list[Leaf]:
    """The leaves of the pipeline's target, in their order."""
    target = target_identifier(pipeline.target).as_string(None)
    return [Leaf(**row) for row in query(connection, "read_leaves", pipeline_id=pipeline_id, target=target)]


def read_unfinished(connection: Connection, pipeline: Pipeline) -> list[int]:
    """The loads that may still be published into the pipeline's target, in their order."""
    return [row["load_id"] for row in query(connection, "find_unfinished", target=str(pipeline.target))]
