"""A person settles a load that is not published: approves it as it is, or discards it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import FencedError, WrongUseError
from penstock.ledger import load as ledger_load
from penstock.ledger.connection import Connection, connect
from penstock.ledger.event import record_event, require_reason, was_approved
from penstock.ledger.incident import end_load_incidents
from penstock.ledger.load import read_load, reading_load
from penstock.ledger.pipeline import lock_pipeline
from penstock.load.publish import Published, publish_load, sweep_old_attempts
from penstock.model.load import OPEN_STATES, LoadState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

    from penstock.model.load import Load


def approve_load(db_uri: str, kafka: Mapping[str, str], load_id: int, who: str, why: str) -> Published:
    """Publish a held load as it is. A call after an interrupted one continues with the publish."""
    with connect(db_uri) as connection, reading_load(connection, load_id):
        release_in(connection, load_id, who, why)
    return publish_load(db_uri, kafka, load_id)


def release_in(connection: Connection, load_id: int, who: str, why: str) -> Load:
    """Move a held load to validated, with who and why. One that was approved before stays as it is."""
    load = lock_with_reason(connection, load_id, who, why)
    if load.state in (LoadState.VALIDATED, LoadState.PUBLISHED) and was_approved(connection, load.load_id):
        return load
    if load.state != LoadState.HELD:
        _refuse(load, "approved", advice.SEE_HELD_LOADS)
    if not ledger_load.release_load(connection, load):
        raise _changed(load)
    record_event(connection, who, load, "approved", why)
    end_load_incidents(connection, load.pipeline, load_id, who, f"{who} decided to approve it: {why}")
    return read_load(connection, load_id)


def discard_load(db_uri: str, load_id: int, who: str, why: str) -> Load:
    """Discard a load that is not published. Its positions do not move, so the next load plans its offsets again."""
    with connect(db_uri) as connection, reading_load(connection, load_id):
        load = discard_in(connection, load_id, who, why)
        connection.commit()
        sweep_old_attempts(connection, load)
    return load


def discard_in(connection: Connection, load_id: int, who: str, why: str) -> Load:
    """Move an open load to discarded, with who and why. A process that still works on the load is fenced."""
    load = lock_with_reason(connection, load_id, who, why)
    if load.state == LoadState.DISCARDED:
        return load
    if load.state not in OPEN_STATES:
        _refuse(load, LoadState.DISCARDED, advice.SEE_OPEN_LOADS)
    if not ledger_load.discard_load(connection, load):
        raise _changed(load)
    record_event(connection, who, load, LoadState.DISCARDED, why)
    end_load_incidents(connection, load.pipeline, load_id, who, f"{who} decided to discard it: {why}")
    return read_load(connection, load_id)


def lock_with_reason(connection: Connection, load_id: int, who: str, why: str) -> Load:
    """Read the load under the lock of plan and publish, so that neither runs while a person decides."""
    require_reason(who, why, load=load_id)
    lock_pipeline(connection, read_load(connection, load_id).pipeline)
    return read_load(connection, load_id)


def _refuse(load: Load, outcome: str, next_step: str) -> Never:
    raise WrongUseError(
        f"the load is {load.state} and cannot be {outcome}.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=next_step,
    )


def _changed(load: Load) -> FencedError:
    return FencedError(
        f"the load was {load.state}, and has changed since; nothing is settled.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=advice.SEE_STATUS_THEN_DECIDE,
    )
