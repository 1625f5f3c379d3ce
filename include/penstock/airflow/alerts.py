"""Alerts from Airflow: the targets are in a connection, the link leads to the run. None of it ever fails a task."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import psycopg

from penstock import advice
from penstock.airflow.connections import read_alert_urls, read_db
from penstock.airflow.task_errors import read_cause, read_reason
from penstock.alerts.due import find_untold
from penstock.alerts.outbox import Alert, AlertKind, alert_once
from penstock.errors import HeldError, LogLostError, MergeError, PenstockError, ProofError
from penstock.ledger.connection import connect
from penstock.ledger.load import read_load

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from penstock.model.load import Load

log = logging.getLogger(__name__)


def alert_failure(connection_id: str, pipeline: str, context: Context) -> None:
    """Alert that a task failed for good, or that its load is held. Of each kind there is one alert for a load."""
    cause = read_cause(context.get("exception"))
    if isinstance(cause, LogLostError) and cause.load is None:
        alert_untold(connection_id, pipeline, context)  # the pipeline is held, whichever of its runs finds it so
        return
    kind: AlertKind = "hold_began" if isinstance(cause, HeldError) else "load_failed"
    if isinstance(cause, ProofError):
        kind = "audit_failed"
    if isinstance(cause, MergeError):
        kind = "leaves_left_out"
    load_id = cause.load if cause and cause.load is not None else _read_planned(context)
    _alert(
        connection_id,
        pipeline,
        kind,
        load_id,
        reason=cause.what if cause else str(read_reason(context)),
        next_step=(cause.next_step if cause else "") or "look at the log of the task, then clear it to try again.",
        link=_link(context),
    )


def alert_failure_of_load(context: Context) -> None:
    """Alert that a task failed for good whose pipeline is told by its load."""
    cause = read_cause(context.get("exception"))
    load = _read(read_db(), cause.load if cause and cause.load is not None else _read_argument(context))
    if load is not None and load.declaration.alerts:
        alert_failure(load.declaration.alerts, load.pipeline, context)


def alert_end_of_hold(connection_id: str | None, pipeline: str, load_id: int, reason: str, context: Context) -> None:
    """Alert that a hold has ended, and how."""
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


def alert_untold(connection_id: str | None, pipeline: str, context: Context) -> None:
    """Alert of what happened to the pipeline itself, and that nobody was told of yet."""
    if not connection_id:
        return
    try:
        urls, db = read_alert_urls(connection_id), read_db()
        with connect(db) as connection:
            due = find_untold(connection, pipeline, _link(context))
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
        # A load that cannot be read now is alerted without the ledger, which would else tell whether it was before.
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
    """The load of this run; None if the run has planned none, or Airflow cannot be asked (where no task runs)."""
    ti = context.get("ti")
    try:
        return ti.xcom_pull(task_ids="plan") if ti is not None and ti.task_id != "plan" else None
    except Exception as error:  # whatever it is, the alert matters more
        log.warning("the run's load could not be read: %s", type(error).__name__)
        return None


def _link(context: Context) -> str:
    return str(getattr(context.get("ti"), "log_url", ""))
