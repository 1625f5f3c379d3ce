"""The DAG that maintains all pipelines, once a day."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from penstock.airflow.dags.pipeline import retry
from penstock.airflow.notifier import PenstockNotifier, tell_retry
from penstock.airflow.steps import maintenance as maintenance_step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.declaration.pipeline import Pipeline

DAG_ID = "penstock_maintenance"
# Off the full hour, when loads are published.
DAILY = "23 3 * * *"

PAGE = """\
# Maintain the targets

Each load is a partition of its target. Once a day this DAG merges neighbouring partitions into bigger ones, so that
fewer than a hundred remain however many loads there were, and drops what is past its keeping time: the rows of loads
that were rolled back (`keep_rolled_back_days`), what quarantined records held (`keep_quarantine_days`), and what was
left by attempts that never counted.

There is a task for each pipeline; one that fails stops no other. It may be triggered at any time, and beside loads.
Readers wait for a moment at most. A merge that gave way to a rollback or a replay, or that found long readers, is tried
again. A partition that PostgreSQL cannot copy is left out: the others are merged, then the task fails, names it, and
alerts.
"""


def make_maintenance_dag(pipelines: Sequence[Pipeline]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Merge the partitions of targets, and drop what is past its keeping time.",
        doc_md=PAGE,
        schedule=DAILY,
        # What a missed run would have done, the next one does.
        catchup=False,
        max_active_runs=1,
        max_active_tasks=1,
        tags=["penstock"],
        default_args={
            "owner": "penstock",
            **retry(3),
            "on_retry_callback": tell_retry,
        },
    ) as dag:
        for pipeline in pipelines:
            PythonOperator(
                task_id=pipeline.name,
                python_callable=partial(maintenance_step.maintain, pipeline.name),
                owner=pipeline.owner,
                on_failure_callback=PenstockNotifier(pipeline.name, pipeline.alerts),
            )
    return dag
