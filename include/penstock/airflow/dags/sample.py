"""The DAG penstock_sample, which keeps the figures of the page up to date."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from penstock.airflow.failures import log_failure
from penstock.airflow.steps.sample import sample

DAG_ID = "penstock_sample"
OFTEN = "* * * * *"

PAGE = """\
# Sample the logs

Every minute this DAG asks Kafka where the logs of all pipelines start and end, how old the first record is that waits,
and whether a transaction is open. The ledger keeps the answers (`penstock.samples`, `penstock.lag_history`), and the
page shows them: no view of the page asks Kafka.

Then it exports the metrics, if a receiver of OpenTelemetry is configured.

A cluster that does not answer within 45 seconds is left to the next run, and delays no other. The page then says so.
"""


def make_sample_dag() -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Keep the ends of the logs for the page.",
        doc_md=PAGE,
        schedule=OFTEN,
        catchup=False,
        max_active_runs=1,
        tags=["penstock"],
        # The next run does the work of a failed one.
        default_args={"owner": "penstock", "retries": 0, "execution_timeout": timedelta(minutes=10)},
    ) as dag:
        PythonOperator(task_id="sample", python_callable=sample, on_failure_callback=log_failure)
    return dag
