"""The DAG penstock_maintenance, which maintains the targets of all pipelines once a day."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from penstock.airflow.dags.pipeline import retry
from penstock.airflow.failures import PipelineNotifier, log_retry
from penstock.airflow.longest_wait import LongestWaitFirst
from penstock.airflow.steps.maintenance import maintain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.declaration.pipeline import Pipeline

DAG_ID = "penstock_maintenance"
# Not at the full hour, when pipelines publish their loads.
DAILY = "23 3 * * *"
SIDE_BY_SIDE = 4

PAGE = """\
# Maintain the targets

Each load is a partition of its target. Once a day this DAG merges neighbouring partitions into bigger ones, so that
fewer than a hundred remain after any number of loads. It also drops data past its keeping time: the rows of loads that
were rolled back (`keep_rolled_back_days`), the contents of quarantined records (`keep_quarantine_days`), and the data
of attempts that were not published.

Each pipeline has a task, and a task that fails stops no other task. Four tasks run at the same time, and the one whose
last success is longest ago starts first. You can trigger the DAG at any time, also beside
loads. Readers wait for a moment at most. A merge is tried again if it released its locks to a rollback or a replay, or
if long readers blocked it. A partition that PostgreSQL cannot copy is left out: the task merges the other partitions,
then fails, names the partition, and alerts.
"""


def make_maintenance_dag(pipelines: Sequence[Pipeline]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Merge the partitions of targets, and drop data past its keeping time.",
        doc_md=PAGE,
        schedule=DAILY,
        # The next run does the work of a missed run.
        catchup=False,
        max_active_runs=1,
        max_active_tasks=SIDE_BY_SIDE,
        tags=["penstock"],
        default_args={
            "owner": "penstock",
            "weight_rule": LongestWaitFirst(),
            **retry(3),
            "on_retry_callback": log_retry,
        },
    ) as dag:
        for pipeline in pipelines:
            PythonOperator(
                task_id=pipeline.name,
                python_callable=partial(maintain, pipeline.name),
                owner=pipeline.owner,
                on_failure_callback=PipelineNotifier(pipeline),
            )
    return dag
