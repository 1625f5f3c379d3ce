"""What the DAG penstock_accept_loss does: a person's decision on a loss."""

from __future__ import annotations

import logging

from airflow.sdk import get_current_context

from penstock.orchestration.connections import read_db, read_kafka
from penstock.orchestration.declared import read_named
from penstock.orchestration.failing import deciding_retries
from penstock.orchestration.steps import refuse_unknown

log = logging.getLogger(__name__)
FIELDS = ("pipeline", "why")


def accept() -> None:
    """Accept the loss of the pipeline that the form names, in the name of whoever filled it in."""
    from penstock.acceptance import accept_loss
    from penstock.orchestration.alerting import alert_untold

    context = get_current_context()
    who = context["dag_run"].triggering_user_name or "airflow"
    with deciding_retries(context["params"]["pipeline"]):
        refuse_unknown(context["dag_run"].conf, FIELDS)
        pipeline = read_named(context["params"]["pipeline"])
        accepted = accept_loss(read_db(), read_kafka(pipeline.kafka), pipeline, who, context["params"]["why"])
    log.info(accepted.told)
    alert_untold(pipeline.alerts, pipeline.name, context)
