"""The DAG penstock_notices, which watches the pipelines and sends the notices that are due."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from penstock.airflow.failures import log_failure
from penstock.airflow.steps.notices import watch

DAG_ID = "penstock_notices"
OFTEN = "*/5 * * * *"

PAGE = """\
# Watch the pipelines, and send what is due

Every five minutes this DAG looks for trouble that no run reports:

- a pipeline that has published nothing for `overdue_intervals` of its schedule, or within its `deadline`, and that no
  run found up to date;
- records that Kafka will delete before the next load, or within the declared `headroom`;
- a transaction that stays open and holds records back.

Each is an incident: `penstock incidents` lists them, `penstock mute` silences one. Then the DAG sends the notices that
are due: first notices that a receiver did not take before, reminders, and the daily digest of warnings.
"""


def make_notices_dag() -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Find overdue loads and records about to be deleted, and send the notices that are due.",
        doc_md=PAGE,
        schedule=OFTEN,
        catchup=False,
        max_active_runs=1,
        tags=["penstock"],
        # The next run does the work of a failed one.
        default_args={"owner": "penstock", "retries": 0, "execution_timeout": timedelta(minutes=30)},
    ) as dag:
        PythonOperator(task_id="watch", python_callable=watch, on_failure_callback=log_failure)
    return dag
