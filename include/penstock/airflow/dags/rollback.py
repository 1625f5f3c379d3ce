"""The DAG penstock_rollback, by which a person takes a published load out of its target, or puts it back."""

from __future__ import annotations

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param

from penstock.airflow.failures import log_failure
from penstock.airflow.runs import why_field
from penstock.airflow.steps.rollback import roll_back

DAG_ID = "penstock_rollback"

PAGE = """\
# Roll a load back

One transaction takes the rows of a published load out of its target. Its offsets become gaps, which a backfill can load
again, and the positions stay. The rows are kept for `keep_rolled_back_days`: within that time **Undo** puts the load
back, unless another load has loaded some of its offsets meanwhile.

The records of a redrive return to the quarantine. The rollback of a redrive has no undo: start a new redrive.

The ledger keeps your name and your reason in `penstock.event`. The same on the command line is `penstock rollback`.
"""


def make_rollback_dag() -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Take a published load out of its target, or put it back.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params={
            "load_id": Param(
                None, type="integer", minimum=1, title="Load", description="The number of the published load."
            ),
            "undo": Param(
                default=False,
                type="boolean",
                title="Undo",
                description="Put a load back that was rolled back.",
            ),
            "why": why_field(),
        },
    ) as dag:
        PythonOperator(task_id="roll_back", python_callable=roll_back, on_failure_callback=log_failure)
    return dag
