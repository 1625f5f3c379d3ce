"""The DAG penstock_backfill, by which a person loads any range of a pipeline's log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, AssetAlias, Param, task_group

from penstock.airflow.dags.pipeline import retry
from penstock.airflow.failures import LoadNotifier, log_failure, log_retry
from penstock.airflow.load_link import LoadOperator
from penstock.airflow.runs import offsets_field, pipeline_field
from penstock.airflow.stage_operator import StageOperator
from penstock.airflow.steps.backfill import plan as plan_loads
from penstock.airflow.steps.backfill import publish as publish_load
from penstock.airflow.steps.pipeline import validate as validate_load
from penstock.backfill.request import FIELDS_OF

if TYPE_CHECKING:
    from collections.abc import Sequence

DAG_ID = "penstock_backfill"
# Its slots are the number of loads of backfills that are staged at the same time.
POOL = "penstock_backfill"
BACKFILLED = AssetAlias("penstock-backfilled")

PAGE = """\
# Load any range, for the first time or again

You can load any offsets below the positions of a pipeline at any time, beside its own runs: by offsets, by time, or all
gaps. The backfill starts only if all of its offsets can be loaded. A dry run only lists the loads in the log of `plan`.

- **Offsets** are written as `partition:from-until`, such as `0:1000-2000`: from 1000 up to, but without, 2000.
- **A time** selects, in each partition, the records from the first record that is not older. Timestamps need not rise
  with the offsets: a record in between may be older or newer. A partition without such a record loads nothing.
- **Replace** loads covered offsets again: one transaction removes the old rows and adds the new ones. Without it the
  backfill refuses ranges that are covered already.

A big range becomes several loads, and each load is published by itself. The slots of the pool `penstock_backfill` limit
how many loads are staged at the same time. To retry a failed task, clear it. **Resume** continues a backfill, also one
of the command line: its unfinished loads run, and a failed load is planned again by the declaration of today.
"""
TIME = "A time with a zone, such as 2026-01-31T00:00:00Z."


def make_backfill_dag(pipelines: Sequence[str]) -> DAG:
    """Make the DAG."""
    with DAG(
        DAG_ID,
        description="Load any range of a pipeline's log: by offsets, by time, or all gaps.",
        doc_md=PAGE,
        schedule=None,
        catchup=False,
        tags=["penstock"],
        default_args={"owner": "penstock"},
        params=_make_form(pipelines),
    ) as dag:
        plan = PythonOperator(task_id="plan", python_callable=plan_loads, on_failure_callback=log_failure)
        _make_load().expand(load_id=plan.output)
    return dag


def _make_load() -> Any:  # noqa: ANN401 - Airflow's type of a group that can be expanded
    @task_group(group_id="load", default_args=_for_each_task())  # type: ignore[untyped-decorator]
    def load(load_id: Any) -> None:  # noqa: ANN401 - a number when the tasks run
        stage = StageOperator(task_id="stage", load_id=load_id, pool=POOL)
        validate = LoadOperator(task_id="validate", python_callable=validate_load, op_args=[load_id])
        publish = LoadOperator(
            task_id="publish",
            python_callable=partial(publish_load, BACKFILLED),
            op_args=[load_id],
            outlets=[BACKFILLED],
        )
        stage >> validate >> publish

    return load


def _make_form(pipelines: Sequence[str]) -> dict[str, Param]:
    return {
        "pipeline": pipeline_field(pipelines),
        "what": Param(
            "all gaps",
            type="string",
            enum=list(FIELDS_OF),
            title="What",
            description="The way to choose the records.",
        ),
        "offsets": offsets_field("partition:from-until, one a line."),
        "from_time": Param(None, type=["null", "string"], format="date-time", title="From time", description=TIME),
        "until_time": Param(None, type=["null", "string"], format="date-time", title="Until time", description=TIME),
        "replace": Param(
            default=False,
            type="boolean",
            title="Replace",
            description="Load covered offsets again; the new rows replace the old ones.",
        ),
        "dry_run": Param(
            default=False,
            type="boolean",
            title="Dry run",
            description="Only list the loads in the log of plan; write nothing.",
        ),
        "records_per_load": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Records per load",
            description="The largest number of records of a load; the pipeline's cap by default.",
        ),
        "resume": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Resume",
            description="Continue the backfill of this number; its failed loads are planned again.",
        ),
    }


def _for_each_task() -> dict[str, Any]:
    return {
        **retry(3),
        "on_failure_callback": LoadNotifier(),
        "on_retry_callback": log_retry,
    }
