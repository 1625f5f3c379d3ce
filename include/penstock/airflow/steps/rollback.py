"""The step of the DAG penstock_rollback: a person rolls a load back, or undoes that."""

from __future__ import annotations

import logging

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.lineage import emit_lineage_of_move
from penstock.airflow.runs import find_person, refuse_unknown

log = logging.getLogger(__name__)
FIELDS = ("load_id", "undo", "why")


def roll_back() -> None:
    """Take the load of the form out of its target, or put it back, in the name of the user who triggered the run."""
    from penstock.decide import rollback

    context = get_current_context()
    params = context["params"]
    with deciding_retries(load=params["load_id"]):
        refuse_unknown(context, FIELDS)
        decide = rollback.undo_rollback if params["undo"] else rollback.roll_back
        moved = decide(read_db(), params["load_id"], find_person(context), params["why"])
    log.info(moved.message)
    emit_lineage_of_move(read_db(), moved.load, moved.ranges)
    send_notices()
