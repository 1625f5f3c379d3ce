"""The step of the DAG penstock_quarantine_drop: a person drops the contents of quarantined records."""

from __future__ import annotations

import logging

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.quarantine_form import SELECTION_FIELDS, read_form
from penstock.airflow.runs import find_person, refuse_unknown

log = logging.getLogger(__name__)
FIELDS = ("pipeline", *SELECTION_FIELDS, "why")


def drop() -> None:
    """Drop the contents of the records that the form selects, in the name of the user who triggered the run."""
    from penstock.decide.quarantine import drop_records

    context = get_current_context()
    params = context["params"]
    with deciding_retries(params["pipeline"]):
        refuse_unknown(context, FIELDS)
        dropped = drop_records(read_db(), read_form(params), find_person(context), params["why"])
    log.info(dropped.message)
    send_notices()
