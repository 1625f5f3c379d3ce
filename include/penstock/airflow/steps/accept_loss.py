"""What the DAG penstock_accept_loss does: a person's decision on a loss."""

from __future__ import annotations

import logging

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db, read_kafka
from penstock.airflow.declarations import read_named
from penstock.airflow.steps.load import refuse_unknown
from penstock.airflow.task_errors import deciding_retries

log = logging.getLogger(__name__)
FIELDS = ("pipeline", "why")


def accept() -> None:
    """Accept the loss of the pipeline that the form names, in the name of whoever filled it in."""
    from penstock.airflow.alerts import alert_untold
    from penstock.decide.accept_loss import accept_loss

    context = get_current_context()
    who = context["dag_run"].triggering_user_name or "airflow"
    with deciding_retries(context["params"]["pipeline"]):
        refuse_unknown(context["dag_run"].conf, FIELDS)
        pipeline = read_named(context["params"]["pipeline"])
        accepted = accept_loss(read_db(), read_kafka(pipeline.kafka), pipeline, who, context["params"]["why"])
    log.info(accepted.told)
    alert_untold(pipeline.alerts, pipeline.name, context)
