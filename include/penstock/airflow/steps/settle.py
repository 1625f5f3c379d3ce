"""The step of the DAG penstock_settle: a person approves or discards a held load."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db, read_kafka_of
from penstock.airflow.failures import deciding_retries
from penstock.airflow.runs import asset_of, describe_load, find_person, refuse_unknown

if TYPE_CHECKING:
    from airflow.sdk import AssetAlias

    from penstock.model.load import Load

log = logging.getLogger(__name__)
DECISIONS = ("approve", "discard")
FIELDS = ("load_id", "decision", "why")


def settle(alias: AssetAlias) -> None:
    """Approve or discard the load that the form names, in the name of the user who triggered the run."""
    from penstock.airflow.alerts import alert_end_of_hold

    context = get_current_context()
    who = find_person(context)
    with deciding_retries(load=context["params"]["load_id"]):
        refuse_unknown(context, FIELDS)
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
        log.info(published.message)
        return published.load
    load = discard_load(read_db(), load_id, who, why)
    log.info("%s: load %s is discarded; the next run loads its offsets again.", load.pipeline, load_id)
    return load
