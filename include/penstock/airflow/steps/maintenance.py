"""The step of the DAG penstock_maintenance: the maintenance of one pipeline."""

from __future__ import annotations

import logging

from penstock.airflow.connections import read_db
from penstock.airflow.declarations import read_named
from penstock.airflow.failures import deciding_retries, send_notices

log = logging.getLogger(__name__)


def maintain(name: str) -> None:
    """Merge the leaves of a pipeline's target, and drop data past its keeping time, by the current declaration."""
    from penstock.maintenance.run import maintain as maintain_pipeline

    with deciding_retries(name):
        done = maintain_pipeline(read_db(), read_named(name), log.info)
        log.info(
            "%s: leaves before: %d, now: %d; dropped: %s.",
            done.pipeline,
            done.leaves_before,
            done.leaves_after,
            done.dropped,
        )
        if done.refused:
            raise done.refused
    send_notices()
