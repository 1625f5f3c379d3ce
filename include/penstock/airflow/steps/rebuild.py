"""The step of the DAG penstock_rebuild: it computes a result again from the rows of its target."""

from __future__ import annotations

import logging

from airflow.sdk import get_current_context

from penstock.airflow.connections import read_db
from penstock.airflow.declarations import read_named
from penstock.airflow.failures import deciding_retries
from penstock.airflow.runs import find_person, refuse_unknown

log = logging.getLogger(__name__)
FIELDS = ("pipeline", "table")


def rebuild() -> str:
    """Rebuild the result that the form names, in the name of the user who triggered the run.

    Return what was written: the page shows it.
    """
    from penstock.load.results.rebuild import rebuild_result

    context = get_current_context()
    params = context["params"]
    with deciding_retries(params["pipeline"]):
        refuse_unknown(context, FIELDS)
        pipeline = read_named(params["pipeline"])
        rebuilt = rebuild_result(read_db(), pipeline, params["table"], find_person(context), log.info)
    log.info(rebuilt.message)
    return rebuilt.message
