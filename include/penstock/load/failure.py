"""Failures of loads as incidents: from the first failed run to the next load that is published."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from penstock import advice
from penstock.errors import (
    FencedError,
    HeldError,
    LogLostError,
    PenstockError,
    ReadError,
    RejectedRecordError,
    StageError,
    WrongUseError,
)
from penstock.ledger.connection import connect
from penstock.ledger.incident import end_incidents, end_load_incidents, see_incident
from penstock.ledger.load import note_cause
from penstock.model.incident import FAILURES, LIVE, IncidentKind, Sighting, key_of_load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

log = logging.getLogger(__name__)

# A held load is an incident already. The other two concern the person or the process that gets them.
KNOWN_OTHERWISE = (HeldError, FencedError, WrongUseError)


def see_failure(
    connection: Connection,
    pipeline: Pipeline,
    load: Load | None,
    error: BaseException,
    *,
    message: str = "",
    next_step: str = "",
    link: str | None = None,
) -> None:
    """Record that a run of a pipeline failed, as an incident and as the cause of its load.

    `message` and `next_step` replace empty ones of the error.

    The failures of live loads are one incident, whatever number of loads fail. A load of a backfill fails once: no
    later load of the same offsets ends the incident, so nobody is reminded of it.
    """
    is_live = load is None or load.kind == "live"
    cause = getattr(error, "what", "") or message or type(error).__name__
    if load is not None:
        note_cause(connection, load.load_id, cause)
    sighting = Sighting(
        pipeline.name,
        choose_kind(error),
        LIVE if load is None or is_live else key_of_load(load.load_id),
        cause,
        getattr(error, "next_step", "") or next_step or advice.READ_LOG_OF_RUN,
        load.load_id if load else None,
        load.ranges if load else (),
        link,
    )
    routes = pipeline.alerts
    if not is_live:
        routes = tuple(route.model_copy(update={"remind": None}) for route in routes)
    see_incident(connection, sighting, routes)


@contextmanager
def recording_failures(db: str, pipeline: Pipeline, load: Load | None = None) -> Iterator[None]:
    """Record an error that is raised inside as an incident, in a transaction of its own."""
    try:
        yield
    except KNOWN_OTHERWISE:
        raise
    except PenstockError as error:
        if load is None and isinstance(error, LogLostError):
            raise  # the plan step holds the pipeline, and the hold is an incident
        try:
            with connect(db) as connection:
                see_failure(connection, pipeline, load, error)
        except (psycopg.Error, PenstockError) as refused:  # the error that is raised is the more important one
            log.warning("the failure is not recorded as an incident: %s", type(refused).__name__)
        raise


def choose_kind(error: BaseException) -> IncidentKind:
    """The kind of the incident that an error of a run belongs to."""
    if isinstance(error, RejectedRecordError):
        return IncidentKind.QUARANTINE_LIMIT
    if isinstance(error, ReadError | StageError | LogLostError):
        return IncidentKind.FAILING_STAGE
    return IncidentKind.FAILING_RUN


def end_failures(connection: Connection, pipeline: str, load: Load | None) -> None:
    """End the failures of a pipeline: a load was published, or a run found nothing to load (`load` is None then)."""
    if load is not None and load.kind != "live":
        end_load_incidents(connection, pipeline, load.load_id, "penstock", f"load {load.load_id} is published")
        return
    why = "a run found nothing new to load" if load is None else f"load {load.load_id} is published"
    end_incidents(connection, pipeline, (*FAILURES, IncidentKind.OVERDUE_LOAD), [LIVE], by="penstock", why=why)
