"""The steps of the DAG penstock_backfill: plan and publish. It validates by the step of a pipeline's DAG."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db, read_kafka, read_kafka_of
from penstock.airflow.declarations import read_named
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.lineage import emit_lineage
from penstock.airflow.runs import add_events, find_person, refuse_unknown
from penstock.errors import WrongUseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import AssetAlias

    from penstock.backfill.request import Request
    from penstock.declaration.pipeline import Pipeline

log = logging.getLogger(__name__)
FIELDS = ("pipeline", "what", "offsets", "from_time", "until_time", "replace", "dry_run", "records_per_load", "resume")


def plan() -> list[int]:
    """Plan the loads that the form requests; without a load Airflow skips the later tasks."""
    from penstock.backfill.plan import describe_draft, plan_backfill, preview_backfill

    context = get_current_context()
    params: Mapping[str, Any] = context["params"]
    with deciding_retries(params["pipeline"]):
        refuse_unknown(context, FIELDS)
        pipeline = read_named(params["pipeline"])
        if params["resume"] is not None:
            return _resume(pipeline, params)
        request = _read_form(params, find_person(context))
        kafka = read_kafka(pipeline.kafka)
        if params["dry_run"]:
            draft = preview_backfill(read_db(), kafka, pipeline, request)
            for line in describe_draft(draft):
                log.info(line)
            return []
        planned = plan_backfill(read_db(), kafka, pipeline, request, context["run_id"])
    log.info(planned.message)
    send_notices()
    return list(planned.load_ids)


def _resume(pipeline: Pipeline, params: Mapping[str, Any]) -> list[int]:
    """Continue a backfill. Its loads were fixed when it was planned, so the form chooses nothing else."""
    from penstock.backfill.run import resume_backfill

    others = [name for name in ("offsets", "from_time", "until_time", "replace", "dry_run", "records_per_load")
              if params[name]]  # fmt: skip
    if others or params["what"] != "all gaps":
        raise WrongUseError(
            f"`resume` is given together with {', '.join(others or ['what'])}.",
            next_step="leave the other fields as they are: the loads of the backfill were fixed when it was planned.",
        )
    load_ids = resume_backfill(read_db(), pipeline, params["resume"], _read_most_loads())
    log.info("%s: backfill %d continues with %d loads.", pipeline.name, params["resume"], len(load_ids))
    return load_ids


def publish(alias: AssetAlias, load_id: int) -> None:
    """Publish a load, and add its ranges to an event of its pipeline's asset."""
    from penstock.load.publish import publish_load

    with deciding_retries(load=load_id):
        kafka = read_kafka_of(load_id)
        published = publish_load(read_db(), kafka, load_id)
        log.info(published.message)
        add_events(get_current_context(), alias, read_db(), published.load)
    emit_lineage(read_db(), kafka, load_id)
    send_notices()


def _read_form(params: Mapping[str, Any], who: str) -> Request:
    from penstock.backfill.request import Request, read_form

    return Request(read_form(params), who, params["replace"], params["records_per_load"], _read_most_loads())


def _read_most_loads() -> int:
    """The most tasks that Airflow maps. It checks this after the plan, when the loads of a backfill are written."""
    return int(conf.getint("core", "max_map_length", fallback=1024))
