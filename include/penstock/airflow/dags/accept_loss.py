"""The DAG by which a person accepts a loss on Airflow's pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param

from penstock.airflow.notifier import tell_failure
from penstock.airflow.steps import accept_loss as acceptance_step

if TYPE_CHECKING:
    from collections.abc import Sequence

DAG_ID = "penstock_accept_loss"

PAGE = """\
# Accept a loss

Kafka no longer has records that a pipeline had still to load: its log starts behind the pipeline's position. The
pipeline is held, and loads nothing more. If the records are gone for good, trigger this DAG: exactly what is lost now
is recorded in `penstock.losses`, with your name and why, and the pipeline's next run goes on from the log's start.

It refuses where nothing is lost. A log that was cut, or a topic that was created again, is another matter: decide on
those by `penstock adopt` on the command line, which shows first what that means.
"""


def make_acceptance_dag(pipelines: Sequence[str]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Record what the log of a pipeline has lost, and let it go on.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params={
            "pipeline": Param(None, type="string", enum=list(pipelines), title="Pipeline"),
            "why": Param(
                None, type="string", minLength=1, title="Why", description="Kept in the ledger, with your name."
            ),
        },
    ) as dag:
        PythonOperator(task_id="accept", python_callable=acceptance_step.accept, on_failure_callback=tell_failure)
    return dag
