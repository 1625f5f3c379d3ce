"""The DAG penstock_settle, by which a person approves or discards a held load."""

from __future__ import annotations

from functools import partial

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, AssetAlias, Param

from penstock.airflow.dags.pipeline import retry
from penstock.airflow.failures import log_failure, log_retry
from penstock.airflow.settle_operator import SettleOperator
from penstock.airflow.settle_runs import ASK as ASK_TASK
from penstock.airflow.settle_runs import DAG_ID
from penstock.airflow.steps.settle import APPROVE, ASK, DISCARD
from penstock.airflow.steps.settle import settle as settle_load

# The asset to update is known only when the task runs: the load names its pipeline.
SETTLED = AssetAlias("penstock-settled")
MOST_WAITING = 1000

PAGE = """\
# Settle a held load

A load whose checks failed waits for a person. None of its rows are published. A held load starts a run of this DAG,
named `load_<number>`, and its task `ask` waits for your answer under **Required Actions**: it shows the failed checks
with their counts and places. Choose, and give your reason:

- **Approve** publishes the load as it is.
- **Discard** discards the load. The pipeline's next run loads its offsets again. The offsets of a backfill can be
  loaded by another backfill, and the records of a redrive stay in the quarantine.

You can also trigger this DAG yourself. With the number of a load only, `ask` waits for an answer; with a decision and a
reason too, the load is settled at once. If the load is settled on the command line, or replaced by a new plan, the
waiting run ends by itself.

The ledger keeps your name and your reason in `penstock.event`. The third way is to change the declaration of the
pipeline: its next run then plans the offsets again, and the hold ends by itself.
"""


def make_settle_dag() -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Approve or discard a load that is held by a failed check.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        tags=["penstock"],
        # Runs that wait for an answer must not keep other runs from starting.
        max_active_runs=MOST_WAITING,
        default_args={
            "owner": "penstock",
            "on_failure_callback": log_failure,
            "on_retry_callback": log_retry,
        },
        params={
            "load_id": Param(None, type="integer", minimum=1, title="Load", description="The number of the held load."),
            "decision": Param(
                ASK,
                enum=[ASK, APPROVE, DISCARD],
                type="string",
                title="Decision",
                description="With `ask` the run waits for an answer, and shows the failed checks.",
            ),
            "why": Param(
                None,
                type=["null", "string"],
                title="Why",
                description="The reason to approve or to discard; the ledger keeps it with your name.",
            ),
        },
    ) as dag:
        ask = SettleOperator(task_id=ASK_TASK, **retry(3))
        PythonOperator(
            task_id="settle",
            python_callable=partial(settle_load, SETTLED),
            op_args=[ask.output],
            outlets=[SETTLED],
            **retry(3),
        )
    return dag
