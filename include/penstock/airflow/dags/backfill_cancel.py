"""The DAG penstock_backfill_cancel, by which a person ends a backfill before all of its loads are published."""

from __future__ import annotations

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param

from penstock.airflow.failures import log_failure
from penstock.airflow.runs import why_field
from penstock.airflow.steps.backfill_cancel import cancel

DAG_ID = "penstock_backfill_cancel"

PAGE = """\
# Cancel a backfill

One transaction discards the open and the failed loads of a backfill. Its published loads stay, and its other offsets
are free for another backfill. A task that still works on one of the loads publishes nothing. To stop such tasks at
once, mark the run of `penstock_backfill` as failed first; the page of the pipeline does both.

The ledger keeps your name and your reason in `penstock.event`. The same on the command line is `penstock backfill`
with `--cancel`.
"""


def make_cancel_dag() -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Discard the open loads of a backfill; what is published stays.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params={
            "backfill": Param(None, type="integer", minimum=1, title="Backfill", description="Its number."),
            "why": why_field(),
        },
    ) as dag:
        PythonOperator(task_id="cancel", python_callable=cancel, on_failure_callback=log_failure)
    return dag
