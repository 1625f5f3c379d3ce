"""The DAG of a pipeline: plan, stage, validate, publish."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from airflow import settings
from airflow.exceptions import AirflowClusterPolicySkipDag
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, AssetAlias, AssetOrTimeSchedule, CronTriggerTimetable, Param, TriggerRule
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.types import DagRunType

from penstock.airflow.deadlines import make_deadline
from penstock.airflow.declarations import find_stage_pool
from penstock.airflow.failures import PipelineNotifier, log_retry
from penstock.airflow.load_link import LoadOperator, PlanOperator
from penstock.airflow.pipeline_page import write_page
from penstock.airflow.runs import asset_of, hours_of
from penstock.airflow.stage_operator import StageOperator
from penstock.airflow.steps import pipeline as steps
from penstock.airflow.waiting_records import waiting_asset_of
from penstock.declaration.schedules import as_cron

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.declaration.pipeline import Pipeline

FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=10), timedelta(minutes=15)
# The asset of a table is known when the publish step has reached the database: a DAG file reads no connection.
TABLES = AssetAlias("penstock-published")
# Airflow refuses a DAG with a longer tag.
LONGEST_TAG = 100
# Airflow's backfill makes a run for each date, and each of them would load what is new today.
RUN_TYPES = [each for each in DagRunType if each != DagRunType.BACKFILL_JOB]


def make_each(pipelines: Iterable[Pipeline]) -> tuple[dict[str, DAG], dict[str, Exception]]:
    """Make the DAG of each pipeline by itself: the DAGs that Airflow takes, and the errors of the others, by name."""
    made: dict[str, DAG] = {}
    refused: dict[str, Exception] = {}
    for pipeline in pipelines:
        try:
            dag = make_dag(pipeline)
            _try(dag)
        except Exception as error:
            refused[pipeline.name] = error
        else:
            made[pipeline.name] = dag
    return made, refused


def _try(dag: DAG) -> None:
    """Check a DAG as Airflow does when it reads a file; there a DAG that fails takes the whole file with it."""
    dag.validate()
    DagSerialization.to_dict(dag)
    try:
        settings.dag_policy(dag)
        for task in dag.tasks:
            settings.task_policy(task)
    except AirflowClusterPolicySkipDag:
        return  # the site leaves the DAG out, and Airflow does the same


def make_dag(pipeline: Pipeline) -> DAG:
    """Make the DAG of a pipeline. Airflow finds it only if a DAG file holds it in a variable."""
    asset = asset_of(pipeline.name)
    with DAG(
        pipeline.name,
        description=pipeline.description or f"Loads the topic {pipeline.topic} into {pipeline.target}, exactly once.",
        doc_md=write_page(pipeline),
        schedule=_find_schedule(pipeline),
        # The next run loads the records of a missed run.
        catchup=False,
        max_active_runs=1,
        allowed_run_types=RUN_TYPES,
        deadline=make_deadline(pipeline),
        params=_make_form(pipeline),
        tags=["penstock", shorten_tag(pipeline.topic), pipeline.mode, *pipeline.tags],
        default_args=_for_each_task(pipeline),
        auto_register=False,
    ) as dag:
        plan = PlanOperator(
            task_id="plan",
            python_callable=partial(steps.plan, pipeline),
            # It skips stage, validate and publish, which get its result; the task hours decides by its own rule.
            ignore_downstream_trigger_rules=False,
        )
        load_id: Any = plan.output
        stage = StageOperator(task_id="stage", load_id=load_id, pool=find_stage_pool())
        validate = LoadOperator(task_id="validate", python_callable=steps.validate, op_args=[load_id])
        publish = LoadOperator(
            task_id="publish",
            python_callable=partial(steps.publish, asset, TABLES),
            op_args=[load_id],
            outlets=[asset, TABLES],
        )
        plan >> stage >> validate >> publish
        if pipeline.publish_hours:
            hours = hours_of(pipeline.name)
            publish >> PythonOperator(
                task_id="hours",
                python_callable=partial(steps.announce_hours, hours, pipeline.name),
                outlets=[hours],
                # An hour without records becomes whole when a plan finds nothing to load, and publish is skipped.
                trigger_rule=TriggerRule.NONE_FAILED,
            )
    return dag


def _make_form(pipeline: Pipeline) -> dict[str, Param]:
    """The form of a run by hand: a pipeline with a window can load outside it once."""
    if pipeline.window is None:
        return {}
    what = f"Load now, also outside the window {pipeline.window}."
    return {"ignore_window": Param(default=False, type="boolean", title="Ignore the window", description=what)}


def _find_schedule(pipeline: Pipeline) -> Any:  # noqa: ANN401 - a text, a timetable, a list of assets, or None
    """The schedule of the declaration, and with `load_when` also the asset that waiting records update."""
    waiting = waiting_asset_of(pipeline)
    if waiting is None:
        return pipeline.times
    cron = as_cron(pipeline.times) if pipeline.times else None
    if cron is None:
        return [waiting]
    return AssetOrTimeSchedule(timetable=CronTriggerTimetable(cron, timezone="UTC"), assets=[waiting])


def shorten_tag(text: str) -> str:
    """Shorten a text to the length of a tag; different texts give different tags."""
    if len(text) <= LONGEST_TAG:
        return text
    ending = f"...{sha256(text.encode()).hexdigest()[:12]}"
    return text[: LONGEST_TAG - len(ending)] + ending


def _for_each_task(pipeline: Pipeline) -> dict[str, Any]:
    return {
        **retry(pipeline.retries),
        "owner": pipeline.owner,
        "execution_timeout": timedelta(minutes=pipeline.timeout_minutes),
        "on_failure_callback": PipelineNotifier(pipeline),
        "on_retry_callback": log_retry,
    }


def retry(times: int) -> dict[str, Any]:
    """The retries of a task: the delay doubles after each try."""
    return {
        "retries": times,
        "retry_delay": FIRST_DELAY,
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": LONGEST_DELAY,
    }
