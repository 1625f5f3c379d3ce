"""What happens when a task fails: its reason becomes the log's last line, and whoever is to know is told once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk import BaseNotifier

from penstock.airflow.task_errors import read_reason

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

log = logging.getLogger(__name__)


class PenstockNotifier(BaseNotifier):  # type: ignore[misc]
    """Alerts the targets of an Airflow connection when a load failed for good or is held."""

    def __init__(self, pipeline: str, alerts: str | None) -> None:
        super().__init__()
        self.pipeline = pipeline
        self.alerts = alerts

    def notify(self, context: Context) -> None:
        """Alert, then let the reason be the last that the log says."""
        if self.alerts:
            from penstock.airflow.alerts import alert_failure

            alert_failure(self.alerts, self.pipeline, context)
        tell_failure(context)


class LoadNotifier(BaseNotifier):  # type: ignore[misc]
    """Does the same for tasks whose pipeline is known only when they run: the load that failed names it."""

    def notify(self, context: Context) -> None:
        """Alert, then let the reason be the last that the log says."""
        from penstock.airflow.alerts import alert_failure_of_load

        alert_failure_of_load(context)
        tell_failure(context)


def tell_retry(context: Context) -> None:
    """Let the reason be the last that the log of this try says. Nobody is alerted while Airflow tries again."""
    log.error("%s Airflow tries again.", read_reason(context))


def tell_failure(context: Context) -> None:
    """Let the reason be the last that the log says."""
    log.error("%s", read_reason(context))
