"""The DAG penstock_verify, by which a person proves the rows of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG

from penstock.airflow.failures import log_failure
from penstock.airflow.runs import offsets_field, pipeline_field, share_field
from penstock.airflow.steps.verify import verify

if TYPE_CHECKING:
    from collections.abc import Sequence

DAG_ID = "penstock_verify"

PAGE = """\
# Verify a pipeline

The run checks the sums of the ledger, counts the rows of every published range and computes their fingerprints again,
reads a share of the log again by the other reader, and finds the kind of every hole. The task fails if anything differs
from the published data: the faults are in `penstock.faults`, and the last line of the log has the next step.

With **Offsets** only the chunks with these offsets are read again. The ledger is checked and the rows are counted as a
whole in any case.

The DAG `penstock_audit` does the same daily for every pipeline, with a smaller share. The same on the command line is
`penstock verify`.
"""


def make_verify_dag(pipelines: Sequence[str]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Prove that the table holds the published rows, and that the log holds the same records.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        # It takes as much of the machine to read the log again as to load it.
        max_active_tasks=1,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params={
            "pipeline": pipeline_field(pipelines),
            "offsets": offsets_field("Read only these offsets again: partition:from-until, one a line."),
            "share": share_field(1.0),
        },
    ) as dag:
        PythonOperator(task_id="verify", python_callable=verify, on_failure_callback=log_failure)
    return dag
