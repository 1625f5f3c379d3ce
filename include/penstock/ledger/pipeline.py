"""The row of a pipeline in the ledger, and its lock, in the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg.types.json import Jsonb

from penstock import advice
from penstock.errors import WrongUseError
from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection

_statements = Statements("ledger/pipeline")


def register_pipeline(connection: Connection, pipeline: Pipeline) -> int:
    """Insert or update the row of a pipeline by its declaration, and lock it until the transaction ends."""
    try:
        _statements.execute(
            connection,
            "register_pipeline",
            name=pipeline.name,
            topic=pipeline.topic,
            target=str(pipeline.target),
            declaration=Jsonb(pipeline.model_dump(mode="json")),
        )
    except psycopg.errors.UniqueViolation as error:
        raise WrongUseError(
            f"another pipeline of this database loads the target {pipeline.target}; nothing is loaded.",
            pipeline=pipeline.name,
            next_step=advice.OTHER_TARGET_OR_NAME,
        ) from error
    return _statements.fetch_value(connection, int, "lock_pipeline", name=pipeline.name)


def lock_pipeline(connection: Connection, name: str) -> int | None:
    """Lock a pipeline until the transaction ends; its number, or None before its first plan."""
    return next(iter(_statements.fetch_values(connection, int, "lock_pipeline", name=name)), None)


def lock_pipeline_now(connection: Connection, pipeline_id: int) -> None:
    """Lock a pipeline, or raise LockNotAvailable without waiting."""
    _statements.execute(connection, "lock_pipeline_now", pipeline_id=pipeline_id)


def mark_up_to_date(connection: Connection, pipeline_id: int) -> None:
    """Record that a plan found nothing new to load."""
    _statements.execute(connection, "mark_up_to_date", pipeline_id=pipeline_id)


def find_pipeline(connection: Connection, name: str) -> int | None:
    """The number of a pipeline; None before its first plan."""
    return next(iter(_statements.fetch_values(connection, int, "find_pipeline", name=name)), None)
