"""Failures of tasks: whether Airflow tries again, the last line of the log, and the alert."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowFailException

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk.definitions.context import Context

    from penstock.declaration.pipeline import Pipeline

log = logging.getLogger(__name__)


@contextmanager
def deciding_retries(pipeline: str | None = None, load: int | None = None) -> Iterator[None]:
    """Let Airflow retry only errors that a retry may cure; every other error fails the task, with the same text.

    Errors of PostgreSQL are explained, and every error names the pipeline and the load if they are given.
    """
    from penstock.ledger.connection import concerning

    try:
        with concerning(pipeline, load):
            yield
    except PenstockError as error:
        if error.may_retry:
            raise
        raise AirflowFailException(str(error)) from error


def read_cause(exception: BaseException | None) -> PenstockError | None:
    """Find the error of Penstock among the causes of a task's exception."""
    while exception is not None and not isinstance(exception, PenstockError):
        exception = exception.__cause__
    return exception


def read_reason(context: Context) -> object:
    """The reason for which the task of a callback failed: the error of Penstock, or else the exception."""
    exception = context.get("exception")
    return read_cause(exception) or exception or "The task's process ended without an error message."


def log_retry(context: Context) -> None:
    """Make the reason the last line of this try's log. No alert is sent while Airflow retries the task."""
    log.error("%s Airflow tries again.", read_reason(context))


def log_failure(context: Context) -> None:
    """Make the reason the last line of the log."""
    log.error("%s", read_reason(context))


def send_notices() -> None:
    """Send the notices that are due, at the end of a step. Never fails a task."""
    from penstock.airflow.alerts import send

    send()


class PipelineNotifier(BaseNotifier):  # type: ignore[misc]
    """Records that a task of a pipeline failed, and sends the notices that are due."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        self.pipeline = pipeline

    def notify(self, context: Context) -> None:
        """Record and send, then make the reason the last line of the log."""
        from penstock.airflow.alerts import report_failure

        report_failure(self.pipeline, context)
        log_failure(context)


class LoadNotifier(BaseNotifier):  # type: ignore[misc]
    """Does the same for a task of the DAG penstock_backfill: only its load names the pipeline."""

    def notify(self, context: Context) -> None:
        """Record and send, then make the reason the last line of the log."""
        from penstock.airflow.alerts import report_failure_of_load

        report_failure_of_load(context)
        log_failure(context)
