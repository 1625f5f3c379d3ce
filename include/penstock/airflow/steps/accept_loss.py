"""The step of the DAG penstock_accept_loss: a person accepts a loss."""

from __future__ import annotations

import logging

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db, read_kafka
from penstock.airflow.declarations import read_named
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.runs import find_person, refuse_unknown

log = logging.getLogger(__name__)
FIELDS = ("pipeline", "why")


def accept() -> None:
    """Accept the loss of the pipeline that the form names, in the name of the user who triggered the run."""
    from penstock.decide.accept_loss import accept_loss

    context = get_current_context()
    with deciding_retries(context["params"]["pipeline"]):
        refuse_unknown(context, FIELDS)
        pipeline = read_named(context["params"]["pipeline"])
        kafka, who = read_kafka(pipeline.kafka), find_person(context)
        accepted = accept_loss(read_db(), kafka, pipeline, who, context["params"]["why"])
    log.info(accepted.message)
    send_notices()
