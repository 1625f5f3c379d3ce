"""The DAG penstock_accept_loss, by which a person accepts the offsets that the log of a pipeline lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from penstock.airflow.failures import log_failure
from penstock.airflow.runs import pipeline_field, why_field
from penstock.airflow.steps.accept_loss import accept

if TYPE_CHECKING:
    from collections.abc import Sequence

DAG_ID = "penstock_accept_loss"

PAGE = """\
# Accept a loss

Kafka no longer has records that a pipeline had not loaded yet: the start of its log is above the pipeline's position.
The pipeline is blocked, and loads nothing more. If nobody can bring the records back, trigger this DAG: it records
exactly the lost offsets in `penstock.losses`, with your name and your reason. The pipeline's next run then continues
from the start of the log.

The DAG refuses to run if no offsets are lost, if the log was truncated, or if the topic was created again. For the last
two use `penstock adopt` on the command line: it shows the consequences first.
"""


def make_acceptance_dag(pipelines: Sequence[str]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Record the offsets that the log of a pipeline lost, and let the pipeline continue.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params={
            "pipeline": pipeline_field(pipelines),
            "why": why_field(),
        },
    ) as dag:
        PythonOperator(task_id="accept", python_callable=accept, on_failure_callback=log_failure)
    return dag
