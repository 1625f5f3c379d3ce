"""The DAG by which a person loads any range of a pipeline's log from Airflow's pages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, AssetAlias, Param, task_group

from penstock.airflow.dags.pipeline import retry
from penstock.airflow.notifier import LoadNotifier, tell_failure, tell_retry
from penstock.airflow.stage_operator import StageOperator
from penstock.airflow.steps import backfill as backfill_steps
from penstock.airflow.steps import load as steps
from penstock.backfill.request import FIELDS_OF

if TYPE_CHECKING:
    from collections.abc import Sequence

DAG_ID = "penstock_backfill"
# Its slots say how many loads of backfills are staged at once.
POOL = "penstock_backfill"
BACKFILLED = AssetAlias("penstock-backfilled")

PAGE = """\
# Load any range, for the first time or once more

What lies below the positions of a pipeline can be loaded at any time, beside its own runs: by offsets, by time, or
whatever is missing (all gaps). Nothing is started unless all of it can be loaded; a dry run only says, in the log of
`plan`, what would be.

- **Offsets** are written as `partition:from-until`, such as `0:1000-2000`: from 1000 up to, and without, 2000.
- **A time** means, in each partition, from the first record that is not older than it. Timestamps need not rise: a
  record in between may be older or newer. Where no record is that young, nothing is loaded.
- **Replace** loads again what is there: in one transaction the old rows go and the new ones come. Without it, ranges
  that are there already are refused.

A big range becomes several loads, each published for itself. How many are staged at once is said by the slots of the
pool `penstock_backfill`. A load that failed is tried again by clearing its `stage`.
"""
TIME = "With its zone, such as 2026-01-31T00:00:00Z."


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
        plan = PythonOperator(task_id="plan", python_callable=backfill_steps.plan, on_failure_callback=tell_failure)
        _make_load().expand(load_id=plan.output)
    return dag


def _make_load() -> Any:  # noqa: ANN401 - Airflow's type of a group that can be expanded
    @task_group(group_id="load", default_args=_for_each_task())  # type: ignore[untyped-decorator]
    def load(load_id: Any) -> None:  # noqa: ANN401 - a number, once it runs
        stage = StageOperator(task_id="stage", load_id=load_id, pool=POOL)
        validate = PythonOperator(task_id="validate", python_callable=steps.validate, op_args=[load_id])
        publish = PythonOperator(
            task_id="publish",
            python_callable=partial(backfill_steps.publish, BACKFILLED),
            op_args=[load_id],
            outlets=[BACKFILLED],
        )
        stage >> validate >> publish

    return load


def _make_form(pipelines: Sequence[str]) -> dict[str, Param]:
    return {
        "pipeline": Param(None, type="string", enum=list(pipelines), title="Pipeline"),
        "what": Param(
            "all gaps", type="string", enum=list(FIELDS_OF), title="What", description="Which way to say it."
        ),
        "offsets": Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            title="Offsets",
            description="partition:from-until, one a line.",
        ),
        "from_time": Param(None, type=["null", "string"], format="date-time", title="From time", description=TIME),
        "until_time": Param(None, type=["null", "string"], format="date-time", title="Until time", description=TIME),
        "replace": Param(default=False, type="boolean", title="Replace", description="Load again what is there."),
        "dry_run": Param(default=False, type="boolean", title="Dry run", description="Only say what would be loaded."),
        "records_per_load": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Records per load",
            description="Else the pipeline's cap.",
        ),
    }


def _for_each_task() -> dict[str, Any]:
    return {
        **retry(3),
        "on_failure_callback": LoadNotifier(),
        "on_retry_callback": tell_retry,
    }
