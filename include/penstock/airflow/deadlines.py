"""The deadline of a run: Airflow's scheduler finds the runs that miss it, and the triggerer records them in the ledger.

A run that never comes has no deadline. The watch of the DAG penstock_notices finds the pipelines without such a run.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.configuration import conf
from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference  # type: ignore[attr-defined]

from penstock.declaration.durations import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline

log = logging.getLogger(__name__)


def make_deadline(pipeline: Pipeline) -> DeadlineAlert | None:
    """The deadline that the declaration sets for each run, from the time at which Airflow queues the run."""
    if pipeline.deadline is None:
        return None
    arguments = {
        "pipeline": pipeline.name,
        "deadline": pipeline.deadline,
        "routes": [route.model_dump() for route in pipeline.alerts],
    }
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=parse_duration(pipeline.deadline),
        callback=AsyncCallback(report_late_run, kwargs=arguments),
    )


async def report_late_run(
    pipeline: str, deadline: str, routes: Sequence[Mapping[str, Any]], context: Mapping[str, Any]
) -> None:
    """Record the incident in a thread, because the clients block."""
    await asyncio.to_thread(_report, pipeline, deadline, routes, str(context["dag_run"]["dag_run_id"]))


def _link(pipeline: str, run: str) -> str:
    """The page of the run; empty if Airflow does not know its own address."""
    site = conf.get("api", "base_url", fallback="").rstrip("/")
    return f"{site}/dags/{pipeline}/runs/{quote(run)}" if site.startswith("http") else ""


def _report(pipeline: str, deadline: str, routes: Sequence[Mapping[str, Any]], run: str) -> None:
    from penstock.airflow.alerts import send
    from penstock.airflow.connections import read_db
    from penstock.declaration.alerts import Route
    from penstock.doctor.watch import see_late_run
    from penstock.ledger.connection import open_ledger

    receivers = [Route.model_validate(route) for route in routes]
    with open_ledger(read_db()) as connection:
        late = see_late_run(connection, pipeline, receivers, parse_duration(deadline), run, _link(pipeline, run))
    log.info("%s: run %s %s", pipeline, run, "missed its deadline" if late else "has ended, or its cause is known")
    send()
