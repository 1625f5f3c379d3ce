"""Incidents of tasks, and the sender in tasks: connections hold the receivers, and the link leads to the run.

Nothing here fails a task.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import psycopg

from penstock import advice
from penstock.airflow.connections import read_alert_urls, read_db
from penstock.airflow.failures import read_cause, read_reason
from penstock.airflow.load_link import find_load
from penstock.airflow.settle_runs import link_request
from penstock.alerts.delivery import send_message
from penstock.alerts.message import write_failure
from penstock.alerts.sender import send_due
from penstock.errors import HeldError, LogLostError, MergeError, PenstockError, ProofError
from penstock.ledger.connection import connect
from penstock.ledger.incident import link_incidents
from penstock.ledger.load import read_load
from penstock.load.failure import see_failure
from penstock.model.incident import HOLDS, IncidentKind

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.load import Load

log = logging.getLogger(__name__)

# The step that raises such an error has recorded the incident itself, of one of these kinds.
RECORDED: tuple[tuple[type[PenstockError], tuple[IncidentKind, ...]], ...] = (
    (HeldError, (IncidentKind.HELD_LOAD,)),
    (
        ProofError,
        (IncidentKind.FAILED_VERIFICATION, IncidentKind.RETENTION_HEADROOM, IncidentKind.STUCK_TRANSACTION),
    ),
    (MergeError, (IncidentKind.UNMERGED_LEAVES,)),
)


def send() -> None:
    """Send the notices that are due."""
    try:
        send_due(read_db(), read_alert_urls)
    except PenstockError as error:
        log.warning("no notice was sent: %s", error)


def report_failure(pipeline: Pipeline, context: Context) -> None:
    """Record that a task failed after its last try, and send the notices that are due."""
    cause = read_cause(context.get("exception"))
    load_id = cause.load if cause and cause.load is not None else _read_planned(context)
    try:
        with connect(read_db()) as connection:
            load = read_load(connection, load_id) if load_id is not None else None
            recorded = _find_recorded(cause, load)
            if cause and recorded:
                link_incidents(connection, pipeline.name, recorded, load_id, _link(context, cause), cause.next_step)
            else:
                error = cause or context.get("exception") or RuntimeError()
                reason = str(read_reason(context))
                see_failure(connection, pipeline, load, error, message=reason, link=_link(context))
    except (psycopg.Error, PenstockError) as error:
        log.warning("the failure is not recorded in the ledger: %s", type(error).__name__)
        _send_directly(pipeline, cause, context)
    else:
        send()


def _find_recorded(cause: PenstockError | None, load: Load | None) -> tuple[IncidentKind, ...]:
    if isinstance(cause, LogLostError) and load is None:
        return HOLDS
    return next((kinds for class_, kinds in RECORDED if isinstance(cause, class_)), ())


def report_failure_of_load(context: Context) -> None:
    """Do the same for a task whose load names the pipeline."""
    cause = read_cause(context.get("exception"))
    load = _read(cause.load if cause and cause.load is not None else _read_argument(context))
    if load is not None:
        report_failure(load.declaration, context)


def _send_directly(pipeline: Pipeline, cause: PenstockError | None, context: Context) -> None:
    """Send without the ledger, which does not answer. A task that is cleared may send the same message again."""
    reason = cause.what if cause else str(read_reason(context))
    next_step = (cause.next_step if cause else "") or advice.READ_LOG_OF_RUN
    message = write_failure(pipeline.name, reason, next_step, _link(context))
    for route in pipeline.alerts:
        if route.severity in (None, "error"):
            try:
                send_message(read_alert_urls(route.to), message)
            except PenstockError as error:
                log.warning("no alert was sent: %s", error)


def _read(load_id: int | None) -> Load | None:
    if load_id is None:
        return None
    try:
        with connect(read_db()) as connection:
            return read_load(connection, load_id)
    except (psycopg.Error, PenstockError):
        return None


def _read_argument(context: Context) -> int | None:
    """The load that a task of a backfill was given."""
    return find_load(context.get("task"))


def _read_planned(context: Context) -> int | None:
    """The load of this run; None if the run planned none, or if Airflow does not answer outside a task."""
    ti = context.get("ti")
    try:
        return ti.xcom_pull(task_ids="plan") if ti is not None and ti.task_id != "plan" else None
    except Exception as error:  # an alert without its load is better than no alert
        log.warning("the run's load could not be read: %s", type(error).__name__)
        return None


def _link(context: Context, cause: PenstockError | None = None) -> str:
    """The link to the task, or to the request that a held load waits for."""
    link = str(getattr(context.get("ti"), "log_url", ""))
    return link_request(cause.load, link) if isinstance(cause, HeldError) and cause.load is not None else link
