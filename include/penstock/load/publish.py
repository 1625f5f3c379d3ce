"""The publish step: one transaction makes the rows visible and moves the offsets, or nothing changes."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from penstock import advice
from penstock.errors import FencedError, HeldError, OutcomeUnknownError, PenstockError, ResultError, name_ranges
from penstock.kafka.identity import refuse_changed_topic
from penstock.ledger import load as ledger_load
from penstock.ledger.connection import Connection, explain, open_ledger
from penstock.ledger.coverage import cover_ranges
from penstock.ledger.event import record_event
from penstock.ledger.generation import advance_hours, move_positions, read_newest_generation
from penstock.ledger.load import read_load, reading_load
from penstock.ledger.pipeline import lock_pipeline
from penstock.ledger.total import count_published
from penstock.load.failure import end_failures
from penstock.load.mirror import mirror_positions
from penstock.load.replacement import replace_covered, replace_quarantined
from penstock.load.results.change import Change, keep_removed
from penstock.load.results.tables import list_updated, update_results
from penstock.model.load import LoadState
from penstock.spark.error_transport import first_words
from penstock.target.registry import find_store
from penstock.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.load import Load

log = logging.getLogger(__name__)

LOOK_UP_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Published:
    """A published load, the message about it, and whether this call published it."""

    load: Load
    message: str
    by_this_call: bool


def publish_load(uri: str, kafka: Mapping[str, str], load_id: int) -> Published:
    """Publish a validated load; a load that is published already is not changed.

    Kafka is queried before the transaction, and only for a validated load: a topic that was changed while the load read
    it stops the publish.
    """
    with closing(open_ledger(uri)) as connection, reading_load(connection, load_id) as load:
        connection.rollback()
        if load.state == LoadState.VALIDATED:
            refuse_changed_topic(kafka, load)
        committing = False
        try:
            found = publish_in(connection, load_id)
            committing = True
            connection.commit()
        except ResultError as error:
            connection.rollback()
            raise _hold(connection, load_id, error) from error
        except psycopg.OperationalError as error:
            if not connection.broken:
                raise _refused(load_id, error) from error
            return _look_up(uri, load_id, committing, error)
        published = _describe(found)
        sweep_old_attempts(connection, found)
    if published.load.kind == "live":  # no other kind moves a position
        mirror_positions(uri, kafka, published.load.declaration)
    return published


def _hold(connection: Connection, load_id: int, error: ResultError) -> PenstockError:
    """Hold a load whose rows are right, but whose results failed; nothing of it is published."""
    load = read_load(connection, load_id)
    lock_pipeline(connection, load.pipeline)
    load = read_load(connection, load_id)
    refuse_unless_validated(load)
    ledger_load.hold_load(connection, load, error.what, error.next_step)
    connection.commit()
    next_step = f"{error.next_step} Then {advice.settle_held(load_id, load.kind)}"
    return HeldError(
        f"held: {error.what}", pipeline=load.pipeline, load=load_id, ranges=load.ranges, next_step=next_step
    )


def _describe(found: Load) -> Published:
    """Describe the outcome of a publish, by the state in which the load was found."""
    if found.state == LoadState.VALIDATED:
        return Published(found, _describe_published(found), by_this_call=True)
    return _describe_unchanged(found)


def sweep_old_attempts(connection: Connection, load: Load) -> None:
    """Drop the places of old attempts after a COMMIT. An error is only logged, because a later load drops them too."""
    try:
        find_store(load.declaration).sweep(connection)
        connection.commit()
    except psycopg.Error as error:
        log.warning("tables of old attempts stay until a later load drops them: %s", explain(error))


def publish_in(connection: Connection, load_id: int) -> Load:
    """Do everything in the publish transaction except COMMIT, and return the load as it was before."""
    load = read_load(connection, load_id)
    lock_pipeline(connection, load.pipeline)
    load = read_load(connection, load_id)
    if load.state == LoadState.PUBLISHED:
        return load
    refuse_unless_validated(load)
    refuse_old_generation(connection, load)
    if load.kind == "live":
        _move_positions(connection, load)
    results = list_updated(connection, load.pipeline_id)
    removed = None
    if load.kind == "replay":
        find_store(load.declaration).interrupt_merge(connection)
        removed = keep_removed(connection, load) if results else None
        replace_covered(connection, load, removed)
    if load.kind == "redrive":
        replace_quarantined(connection, load)
    cover_ranges(connection, load)
    if load.kind == "live":
        advance_hours(connection, load.generation_id)
    find_store(load.declaration).publish(connection, load)
    update_results(connection, load, results, Change.adds(load, removed))
    ledger_load.publish_load(connection, load)
    count_published(connection, load_id)
    end_failures(connection, load.pipeline, load)
    record_event(connection, "penstock", load, LoadState.PUBLISHED, None)
    return load


def refuse_unless_validated(load: Load) -> None:
    """Refuse a load that is not validated: a held load waits for a person, any other was replaced."""
    if load.state == LoadState.VALIDATED:
        return
    if load.state == LoadState.HELD:
        raise HeldError(
            f"held: {load.cause}",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step=advice.settle_held(load.load_id, load.kind),
        )
    after = f" by load {load.superseded_by}" if load.superseded_by else ""
    raise FencedError(
        f"the load is {load.state}{after}, not validated; nothing is published.",
        pipeline=load.pipeline,
        load=load.load_id,
        ranges=load.ranges,
        next_step=advice.SEE_CURRENT_LOAD,
    )


def refuse_old_generation(connection: Connection, load: Load) -> None:
    """Refuse a load of an earlier generation: its offsets mean other records now."""
    newest = read_newest_generation(connection, load.pipeline_id)
    if newest is None or newest.generation_id != load.generation_id:
        raise FencedError(
            "the load was planned before its pipeline adopted another log; nothing of it is published.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.RUN_OR_BACKFILL_AGAIN,
        )


def _move_positions(connection: Connection, load: Load) -> None:
    moved = move_positions(connection, load)
    for range_ in load.ranges:
        if range_ in moved:
            continue
        raise FencedError(
            f"the position of partition {range_.partition} is no longer {range_.from_offset}: another load "
            "moved it. Nothing of this load is published.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=[range_],
            next_step=advice.RUN_AFTER_OTHER_LOAD,
        )


def _describe_published(load: Load) -> str:
    filtered = f", {load.filtered} filtered" if load.declaration.transform else ""
    return (
        f"{load.pipeline}: load {load.load_id} published, {load.rows} rows, {load.quarantined} quarantined, "
        f"{load.holes} holes{filtered}: " + name_ranges(load.ranges)
    )


def _describe_unchanged(load: Load) -> Published:
    return Published(load, f"{load.pipeline}: load {load.load_id} is published already; it stays.", by_this_call=False)


def _refused(load_id: int, error: psycopg.Error) -> PenstockError:
    if isinstance(error, psycopg.errors.LockNotAvailable):
        explained = explain(error)
        return PenstockError(f"nothing is published: {explained.what}", load=load_id, next_step=explained.next_step)
    return PenstockError(
        f"PostgreSQL refused to publish: {str(error).splitlines()[0]}. Nothing is published.",
        load=load_id,
        next_step=advice.RETRY_PUBLISH,
    )


def _look_up(uri: str, load_id: int, committing: bool, error: psycopg.Error) -> Published:
    """After a broken connection, find out whether the transaction was committed, instead of repeating it."""
    first = f" (first error: {first_words(str(error)).rstrip('.')})"
    outcome = wait_until(lambda: _read_outcome(uri, load_id), seconds=LOOK_UP_SECONDS)
    if outcome is None:
        if committing:
            raise OutcomeUnknownError(
                "the connection broke during COMMIT, and PostgreSQL does not answer whether the load is published"
                f"{first}.",
                load=load_id,
                next_step=advice.RETRY_PUBLISH_AFTER_UNKNOWN,
            ) from error
        raise PenstockError(
            f"the connection broke before COMMIT; nothing is published{first}.",
            load=load_id,
            next_step=advice.RETRY_PUBLISH_LATER,
        ) from error
    if outcome.state == LoadState.PUBLISHED:
        return _describe_unchanged(outcome)
    raise PenstockError(
        f"the connection broke and PostgreSQL rolled the publish back; nothing is published{first}.",
        pipeline=outcome.pipeline,
        load=load_id,
        ranges=outcome.ranges,
        next_step=advice.RETRY_PUBLISH,
    ) from error


def _read_outcome(uri: str, load_id: int) -> Load | None:
    """Read the load under the pipeline's lock. A running transaction holds that lock, so the answer is final."""
    try:
        with open_ledger(uri) as connection:
            load = read_load(connection, load_id)
            lock_pipeline(connection, load.pipeline)
            return read_load(connection, load_id)
    except (psycopg.OperationalError, PenstockError):
        return None
