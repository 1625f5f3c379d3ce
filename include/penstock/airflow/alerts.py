"""Alerts from tasks: a connection holds their targets, and their link leads to the run. They never fail a task."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import psycopg

from penstock import advice
from penstock.airflow.connections import read_alert_urls, read_db
from penstock.airflow.failures import read_cause, read_reason
from penstock.alerts.alert import Alert, AlertKind
from penstock.alerts.outbox import alert_once, find_due
from penstock.errors import HeldError, LogLostError, MergeError, PenstockError, ProofError
from penstock.ledger.connection import connect
from penstock.ledger.load import read_load

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from penstock.model.load import Load

log = logging.getLogger(__name__)


def alert_failure(connection_id: str, pipeline: str, context: Context) -> None:
    """Alert that a task failed after its last try, or that its load is held; at most one alert of a kind for a load."""
    cause = read_cause(context.get("exception"))
    if isinstance(cause, LogLostError) and cause.load is None:
        alert_due(connection_id, pipeline, context)  # the ledger holds the pipeline itself, for all of its runs
        return
    load_id = cause.load if cause and cause.load is not None else _read_planned(context)
    _alert(
        connection_id,
        pipeline,
        _choose_kind(cause),
        load_id,
        reason=cause.what if cause else str(read_reason(context)),
        next_step=(cause.next_step if cause else "") or "read the log of the task, then clear the task to try again.",
        link=_link(context),
    )


def _choose_kind(cause: PenstockError | None) -> AlertKind:
    if isinstance(cause, HeldError):
        return "hold_began"
    if isinstance(cause, ProofError):
        return "audit_failed"
    if isinstance(cause, MergeError):
        return "leaves_left_out"
    return "load_failed"


def alert_failure_of_load(context: Context) -> None:
    """Alert that a task failed after its last try; its load names the pipeline."""
    cause = read_cause(context.get("exception"))
    load = _read(read_db(), cause.load if cause and cause.load is not None else _read_argument(context))
    if load is not None and load.declaration.alerts:
        alert_failure(load.declaration.alerts, load.pipeline, context)


def alert_end_of_hold(connection_id: str | None, pipeline: str, load_id: int, reason: str, context: Context) -> None:
    """Alert that a load is no longer held, with the reason."""
    if connection_id:
        _alert(
            connection_id,
            pipeline,
            "hold_ended",
            load_id,
            reason=reason,
            next_step=advice.PIPELINE_CONTINUES,
            link=_link(context),
        )


def alert_due(connection_id: str | None, pipeline: str, context: Context) -> None:
    """Send the alerts about the pipeline itself that are due in the ledger."""
    if not connection_id:
        return
    try:
        urls, db = read_alert_urls(connection_id), read_db()
        with connect(db) as connection:
            due = find_due(connection, pipeline, _link(context))
        for alert in due:
            if alert_once(db, urls, alert):
                log.info("alerted the targets of the connection %s: %s.", connection_id, alert.kind)
    except (psycopg.Error, PenstockError) as error:
        log.warning("no alert was sent: %s", error)


def _alert(
    connection_id: str, pipeline: str, kind: AlertKind, load_id: int | None, *, reason: str, next_step: str, link: str
) -> None:
    try:
        urls = read_alert_urls(connection_id)
        db = read_db()
        load = _read(db, load_id)
        # Without the load the alert is sent without a claim in the ledger, so it may be sent twice.
        alert = Alert(
            pipeline,
            kind,
            reason=reason,
            next_step=next_step,
            load=load.load_id if load else None,
            ranges=load.ranges if load else (),
            link=link,
        )
        if alert_once(db, urls, alert):
            log.info("alerted the targets of the connection %s: %s.", connection_id, kind)
    except PenstockError as error:
        log.warning("no alert was sent: %s", error)


def _read(db: str, load_id: int | None) -> Load | None:
    if load_id is None:
        return None
    try:
        with connect(db) as connection:
            return read_load(connection, load_id)
    except (psycopg.Error, PenstockError):
        return None


def _read_argument(context: Context) -> int | None:
    """The load that a task of a backfill was given."""
    task = context.get("task")
    given = str(getattr(task, "load_id", None) or next(iter(getattr(task, "op_args", ())), None))
    return int(given) if given.isdecimal() else None


def _read_planned(context: Context) -> int | None:
    """The load of this run; None if the run planned none, or if Airflow does not answer outside a task."""
    ti = context.get("ti")
    try:
        return ti.xcom_pull(task_ids="plan") if ti is not None and ti.task_id != "plan" else None
    except Exception as error:  # an alert without its load is better than no alert
        log.warning("the run's load could not be read: %s", type(error).__name__)
        return None


def _link(context: Context) -> str:
    return str(getattr(context.get("ti"), "log_url", ""))
