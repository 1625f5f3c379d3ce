"""The DAG penstock_audit, which verifies every pipeline daily and warns before the log loses records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from penstock.airflow.dags.pipeline import retry
from penstock.airflow.failures import PipelineNotifier, log_retry
from penstock.airflow.longest_wait import LongestWaitFirst
from penstock.airflow.runs import share_field
from penstock.airflow.steps.audit import examine, verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.declaration.pipeline import Pipeline

DAG_ID = "penstock_audit"
SIDE_BY_SIDE = 4

PAGE = """\
# The daily audit

Each pipeline has two tasks:

- **verify** checks the sums of the ledger, counts the rows of every published range and computes their fingerprints
  again, reads a share of the log again by the other reader, and finds the kind of every hole. The task fails and alerts
  if anything differs from the published data; the faults are in `penstock.faults`.
- **examine** finds settings that can lose records, and shows how long the log keeps the records that wait. The task
  fails and alerts if records will be deleted before their pipeline's next run; it logs every other finding.

Four tasks run at the same time. The one whose last success is longest ago starts first.

Trigger the DAG by hand to read another share of the log again; 1 reads all of it.
"""


def make_audit_dag(pipelines: Sequence[Pipeline]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Prove that the published rows are in the tables, and warn before the log loses records.",
        doc_md=PAGE,
        schedule="@daily",
        catchup=False,
        max_active_runs=1,
        # It takes as much of the machine to read the log again as to load it, so only a few pipelines take their turn
        # at the same time.
        max_active_tasks=SIDE_BY_SIDE,
        tags=["penstock"],
        default_args={"owner": "penstock", "weight_rule": LongestWaitFirst()},
        params={
            "share": share_field(0.1),
        },
    ) as dag:
        for pipeline in pipelines:
            for name, step in (("verify", verify), ("examine", examine)):
                PythonOperator(
                    task_id=f"{name}_{pipeline.name}",
                    python_callable=partial(step, pipeline),
                    **_for_each_task(pipeline),
                )
    return dag


def name_pipeline(task_id: str) -> str:
    """The pipeline of a task."""
    return task_id.partition("_")[2]


def _for_each_task(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "owner": pipeline.owner,
        "on_failure_callback": PipelineNotifier(pipeline),
        "on_retry_callback": log_retry,
        **retry(pipeline.retries),
    }
