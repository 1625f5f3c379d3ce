"""What a person decides on a load that is not published: to publish it as it is, or to give it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import FencedError, WrongUseError
from penstock.ledger.connection import Connection, connect
from penstock.ledger.load import read_load, reading_load, record_event, refuse_silence, run
from penstock.ledger.statements import read_statements
from penstock.load.publish import Published, publish_load, sweep_old_attempts
from penstock.model.load import OPEN_STATES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Never

    from penstock.model.load import Load


def approve_load(db_uri: str, kafka: Mapping[str, str], load_id: int, who: str, why: str) -> Published:
    """Publish a held load as it is. Called again after it was cut short, it goes on where it stopped."""
    with connect(db_uri) as connection, reading_load(connection, load_id):
        release_in(connection, load_id, who, why)
    return publish_load(db_uri, kafka, load_id)


def release_in(connection: Connection, load_id: int, who: str, why: str) -> Load:
    """Move a held load to validated, with who and why. One that was approved before stays as it is."""
    load = lock_with_reason(connection, load_id, who, why)
    if load.state in ("validated", "published") and _was_approved(connection, load):
        return load
    if load.state != "held":
        _refuse(load, "approved", advice.SEE_HELD_LOADS)
    if run(connection, "release_load", load_id=load_id).rowcount != 1:
        raise _changed(load)
    record_event(connection, who, load, "approved", why)
    return read_load(connection, load_id)


def discard_load(db_uri: str, load_id: int, who: str, why: str) -> Load:
    """Give up a load that is not published. Its offsets stay where they are, and the next load plans them again."""
    with connect(db_uri) as connection, reading_load(connection, load_id):
        load = discard_in(connection, load_id, who, why)
        connection.commit()
        sweep_old_attempts(connection, load)
    return load


def discard_in(connection: Connection, load_id: int, who: str, why: str) -> Load:
    """Move an open load to discarded, with who and why; whoever still works on it finds it ended."""
    load = lock_with_reason(connection, load_id, who, why)
    if load.state == "discarded":
        return load
    if load.state not in OPEN_STATES:
        _refuse(load, "discarded", advice.SEE_OPEN_LOADS)
    if run(connection, "discard_load", load_id=load_id, state=load.state).rowcount != 1:
        raise _changed(load)
    record_event(connection, who, load, "discarded", why)
    return read_load(connection, load_id)


def lock_with_reason(connection: Connection, load_id: int, who: str, why: str) -> Load:
    """Read the load behind the lock of plan and publish: neither is under way while a person decides."""
    refuse_silence(who, why, load=load_id)
    run(connection, "lock_pipeline", name=read_load(connection, load_id).pipeline)
    return read_load(connection, load_id)


def _was_approved(connection: Connection, load: Load) -> bool:
    found = connection.execute(read_statements("ledger/check_result")["was_approved"], {"load_id": load.load_id})
    return found.fetchone() is not None


def _refuse(load: Load, settled: str, next_step: str) -> Never:
    raise WrongUseError(
        f"the load is {load.state} and cannot be {settled}.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=next_step,
    )


def _changed(load: Load) -> FencedError:
    return FencedError(
        f"the load was {load.state}, and changed meanwhile; nothing is settled.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=advice.SEE_STATUS_THEN_DECIDE,
    )
