"""Events: who did what to a load or a pipeline, and why, in the caller's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import WrongUseError
from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

_statements = Statements("ledger/event")

ROLLBACK_UNDONE = "rollback undone"


def record_event(connection: Connection, actor: str, load: Load, what: str, why: str | None) -> None:
    """Record an event of a load."""
    _record(connection, actor, load.pipeline_id, load.load_id, what, why)


def record_pipeline_event(connection: Connection, actor: str, pipeline_id: int, what: str, why: str) -> None:
    """Record an event of a pipeline."""
    _record(connection, actor, pipeline_id, None, what, why)


def was_approved(connection: Connection, load_id: int) -> bool:
    """Whether a person has approved a load before."""
    return _statements.fetch_value(connection, bool, "was_approved", load_id=load_id)


def require_reason(who: str, why: str, *, pipeline: str | None = None, load: int | None = None) -> None:
    """Refuse a decision without a person or without a reason."""
    for option, text in (("--who", who), ("--why", why)):
        if not text.strip():
            raise WrongUseError(f"{option} is empty.", pipeline=pipeline, load=load, next_step=advice.GIVE_WHO_AND_WHY)


def _record(
    connection: Connection, actor: str, pipeline_id: int, load_id: int | None, what: str, why: str | None
) -> None:
    _statements.execute(
        connection, "record_event", actor=actor, pipeline_id=pipeline_id, load_id=load_id, what=what, why=why
    )
