"""The DAG by which a person settles a held load on Airflow's pages."""

from __future__ import annotations

from functools import partial

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, AssetAlias, Param

from penstock.airflow.notifier import tell_failure
from penstock.airflow.steps import settle as settling_step

DAG_ID = "penstock_settle"
# Which pipeline's asset it updates is known only when it runs.
SETTLED = AssetAlias("penstock-settled")

PAGE = """\
# Settle a held load

A load whose checks failed waits for a person. Nothing of it is published, and its pipeline loads nothing more until it
is settled. Trigger this DAG with the load's number (the last line of the failed task names it), what to do, and why:

- **approve** publishes the load as it is.
- **discard** gives it up. Its offsets are loaded again by the pipeline's next run.

Who did it, and why, is kept in `penstock.event`. The third way on is to change the declaration of the pipeline: its
next run then plans anew, and the hold ends by itself.
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
            "decision": Param(None, enum=list(settling_step.DECISIONS), type="string", title="What to do"),
            "why": Param(
                None, type="string", minLength=1, title="Why", description="Kept in the ledger, with your name."
            ),
        },
    ) as dag:
        PythonOperator(
            task_id="settle",
            python_callable=partial(settling_step.settle, SETTLED),
            outlets=[SETTLED],
            on_failure_callback=tell_failure,
        )
    return dag
