"""The DAG penstock_quarantine_drop, by which a person drops the contents of quarantined records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from penstock.airflow.failures import log_failure
from penstock.airflow.quarantine_form import selection_fields
from penstock.airflow.runs import pipeline_field, why_field
from penstock.airflow.steps.quarantine_drop import drop

if TYPE_CHECKING:
    from collections.abc import Sequence

DAG_ID = "penstock_quarantine_drop"

PAGE = """\
# Drop quarantined records

The contents of the chosen records (key, value and headers) are deleted for good: nobody can redrive them. Their offsets
and reasons stay in the ledger, so that every offset stays accounted for.

Choose records by reason, rule, load, place or time; all chosen fields must match. Without any of them switch
**Everything** on. To see first what is chosen, use `penstock quarantine list` or the view `penstock.quarantined`.

The ledger keeps your name and your reason in `penstock.event`. The same on the command line is
`penstock quarantine drop`.
"""


def make_drop_dag(pipelines: Sequence[str]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Delete the contents of quarantined records for good.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params={"pipeline": pipeline_field(pipelines), **selection_fields(), "why": why_field()},
    ) as dag:
        PythonOperator(task_id="drop", python_callable=drop, on_failure_callback=log_failure)
    return dag
