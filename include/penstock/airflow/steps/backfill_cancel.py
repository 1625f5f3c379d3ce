"""The step of the DAG penstock_backfill_cancel: a person ends a backfill."""

from __future__ import annotations

import logging

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db
from penstock.airflow.failures import deciding_retries, send_notices
from penstock.airflow.runs import find_person, refuse_unknown

log = logging.getLogger(__name__)
FIELDS = ("backfill", "why")


def cancel() -> str:
    """Cancel the backfill of the form, in the name of the user who triggered the run; the page shows the message."""
    from penstock.backfill.cancel import cancel_backfill

    context = get_current_context()
    params = context["params"]
    with deciding_retries():
        refuse_unknown(context, FIELDS)
        cancelled = cancel_backfill(read_db(), params["backfill"], find_person(context), params["why"])
    log.info(cancelled.message)
    send_notices()
    return cancelled.message
