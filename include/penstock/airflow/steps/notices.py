"""The step of the DAG penstock_notices: watch the pipelines, and send what is due."""

from __future__ import annotations

import logging
from functools import cache

from penstock.airflow.connections import read_alert_urls, read_db, read_kafka
from penstock.airflow.declarations import read_valid
from penstock.airflow.failures import deciding_retries

log = logging.getLogger(__name__)


def watch() -> None:
    """Record what no run reports, then send. A pipeline that cannot be examined is logged, and stops nothing."""
    from penstock.alerts.sender import send_all
    from penstock.doctor.watch import watch_pipelines

    read_once = cache(read_kafka)
    with deciding_retries():
        try:
            errors = watch_pipelines(read_db(), lambda pipeline: read_once(pipeline.kafka), read_valid())
            for error in errors:
                log.warning("not examined: %s", error)
        finally:
            log.info("notices sent: %d", send_all(read_db(), read_alert_urls))
