"""What the DAG penstock_settle does: a person's decision on a held load."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db
from penstock.airflow.steps.load import describe_load, read_kafka_of, refuse_unknown
from penstock.airflow.task_errors import deciding_retries

if TYPE_CHECKING:
    from airflow.sdk import AssetAlias

    from penstock.model.load import Load

log = logging.getLogger(__name__)
DECISIONS = ("approve", "discard")
FIELDS = ("load_id", "decision", "why")


def settle(alias: AssetAlias) -> None:
    """Approve or discard the load that the form names, in the name of whoever filled it in."""
    from penstock.airflow.alerts import alert_end_of_hold
    from penstock.airflow.dags.pipeline import asset_of

    context = get_current_context()
    who = context["dag_run"].triggering_user_name or "airflow"
    with deciding_retries(load=context["params"]["load_id"]):
        refuse_unknown(context["dag_run"].conf, FIELDS)
        load_id, decision, why = (context["params"][name] for name in FIELDS)
        load = _decide(decision, load_id, who, why)
    if decision == "approve":
        context["outlet_events"][alias].add(asset_of(load.pipeline), extra=describe_load(load))
    reason = f"{who} decided to {decision} it: {why}"
    alert_end_of_hold(load.declaration.alerts, load.pipeline, load.load_id, reason, context)


def _decide(decision: str, load_id: int, who: str, why: str) -> Load:
    from penstock.decide.settle import approve_load, discard_load

    if decision == "approve":
        published = approve_load(read_db(), read_kafka_of(load_id), load_id, who, why)
        log.info(published.told)
        return published.load
    load = discard_load(read_db(), load_id, who, why)
    log.info("%s: load %s is discarded; the next run loads its offsets again.", load.pipeline, load_id)
    return load
