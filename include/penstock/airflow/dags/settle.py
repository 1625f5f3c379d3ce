"""The DAG penstock_settle, by which a person approves or discards a held load."""

from __future__ import annotations

from functools import partial

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, AssetAlias, Param

from penstock.airflow.failures import log_failure
from penstock.airflow.runs import why_field
from penstock.airflow.steps.settle import DECISIONS
from penstock.airflow.steps.settle import settle as settle_load

DAG_ID = "penstock_settle"
# The asset to update is known only when the task runs: the load names its pipeline.
SETTLED = AssetAlias("penstock-settled")

PAGE = """\
# Settle a held load

A load whose checks failed waits for a person. None of its rows are published, and its pipeline loads nothing more until
the load is settled. Trigger this DAG with the number of the load (the last line of the failed task names it), your
decision, and your reason:

- **approve** publishes the load as it is.
- **discard** discards the load. The pipeline's next run loads its offsets again.

The ledger keeps your name and your reason in `penstock.event`. The third way is to change the declaration of the
pipeline: its next run then plans the offsets again, and the hold ends by itself.
"""


def make_settle_dag() -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Approve or discard a load that is held by a failed check.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params={
            "load_id": Param(None, type="integer", minimum=1, title="Load", description="The number of the held load."),
            "decision": Param(None, enum=list(DECISIONS), type="string", title="What to do"),
            "why": why_field(),
        },
    ) as dag:
        PythonOperator(
            task_id="settle",
            python_callable=partial(settle_load, SETTLED),
            outlets=[SETTLED],
            on_failure_callback=log_failure,
        )
    return dag
