"""The step of the DAG penstock_settle that does what a person decided: it publishes or discards a held load."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowSkipException

from penstock import advice
from penstock.airflow.connections import read_db, read_kafka_of
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.lineage import emit_lineage
from penstock.airflow.runs import add_events

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import AssetAlias

    from penstock.model.load import Load

log = logging.getLogger(__name__)
ASK, APPROVE, DISCARD = "ask", "approve", "discard"
FIELDS = ("load_id", "decision", "why")


def settle(alias: AssetAlias, decided: Mapping[str, str] | None) -> None:
    """Approve or discard the load of the run, in the name of the person who decided."""
    context = get_current_context()
    load_id = context["params"]["load_id"]
    if decided is None:
        raise AirflowSkipException(f"load {load_id} was no longer held, so nobody had to decide.")
    decision, who, why = (decided[name] for name in ("decision", "who", "why"))
    with deciding_retries(load=load_id):
        load = _decide(decision, load_id, who, why)
    if decision == APPROVE:
        add_events(context, alias, read_db(), load)
    send_notices()


def _decide(decision: str, load_id: int, who: str, why: str) -> Load:
    from penstock.decide.settle import approve_load, discard_load

    if decision == APPROVE:
        kafka = read_kafka_of(load_id)
        published = approve_load(read_db(), kafka, load_id, who, why)
        log.info(published.message)
        emit_lineage(read_db(), kafka, load_id)
        return published.load
    load = discard_load(read_db(), load_id, who, why)
    log.info("%s: load %s is discarded; %s.", load.pipeline, load_id, advice.after_discard(load.kind))
    return load
