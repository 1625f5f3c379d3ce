"""The DAG that verifies every pipeline daily, and looks whether the log is about to lose what is not loaded yet."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Param

from penstock.airflow.dags.pipeline import retry
from penstock.airflow.notifier import PenstockNotifier, tell_retry
from penstock.airflow.steps import audit as audit_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.declaration.pipeline import Pipeline

DAG_ID = "penstock_audit"

PAGE = """\
# The daily audit

For each pipeline, two tasks:

- **verify** adds the ledger up, counts the rows of every published range and takes their fingerprint anew, reads a
  share of what the log still holds by the reader that did not load it, and names every hole. It fails, and alerts, if
  anything is not as it was published; the faults are in `penstock.faults`.
- **examine** looks for settings that can lose records, and how long the log keeps what is not loaded yet. It fails, and
  alerts, if records are about to be deleted before their pipeline's next run; everything else it tells in its log.

Trigger it by hand to read another share again; 1 is all of it.
"""


def make_audit_dag(pipelines: Sequence[Pipeline]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Prove that what was published is still there, and that nothing is about to be lost.",
        doc_md=PAGE,
        schedule="@daily",
        catchup=False,
        max_active_runs=1,
        # Reading the log again takes as much of the machine as loading it.
        max_active_tasks=1,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params={
            "share": Param(
                0.1,
                type="number",
                minimum=0,
                maximum=1,
                title="Share",
                description="Which share of what the log still holds is read again.",
            )
        },
    ) as dag:
        for pipeline in pipelines:
            for name, step in (("verify", audit_steps.verify), ("examine", audit_steps.examine)):
                PythonOperator(
                    task_id=f"{name}_{pipeline.name}",
                    python_callable=partial(step, pipeline),
                    **_for_each_task(pipeline),
                )
    return dag


def _for_each_task(pipeline: Pipeline) -> dict[str, Any]:
    return {
        "owner": pipeline.owner,
        "on_failure_callback": PenstockNotifier(pipeline.name, pipeline.alerts),
        "on_retry_callback": tell_retry,
        **retry(pipeline.retries),
    }
