"""The DAG penstock_rebuild, by which a person computes a result again from the rows of its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param

from penstock.airflow.dags.pipeline import retry
from penstock.airflow.failures import log_failure, log_retry
from penstock.airflow.runs import pipeline_field
from penstock.airflow.steps.rebuild import rebuild

if TYPE_CHECKING:
    from collections.abc import Sequence

DAG_ID = "penstock_rebuild"

PAGE = """\
# Rebuild a result

A result is a table that is derived from the rows of a target. The run computes it again from these rows, in pieces,
beside the loads of the pipeline. The last transaction writes the rows that differ, so no reader waits. A new or changed
result of a pipeline with published rows waits for this run. The run also corrects a table that was changed by hand.

A rebuild that was interrupted continues where it stopped: clear the task, or trigger the DAG again. The ledger keeps
your name in `penstock.event`. The same on the command line is `penstock rebuild`.
"""


def make_rebuild_dag(pipelines: Sequence[str]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Compute a result again from the rows of the target, beside live loads.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params={
            "pipeline": pipeline_field(pipelines),
            "table": Param(
                None, type="string", minLength=1, title="Table", description="The table of the result: schema.table."
            ),
        },
    ) as dag:
        PythonOperator(
            task_id="rebuild",
            python_callable=rebuild,
            **retry(3),
            on_failure_callback=log_failure,
            on_retry_callback=log_retry,
        )
    return dag
