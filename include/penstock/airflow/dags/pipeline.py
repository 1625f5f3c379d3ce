"""The DAG of a pipeline: plan, stage, validate, publish."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from airflow import settings
from airflow.exceptions import AirflowClusterPolicySkipDag
from airflow.providers.standard.operators.python import PythonOperator, ShortCircuitOperator
from airflow.sdk import DAG, Asset
from airflow.serialization.serialized_objects import DagSerialization

from penstock.airflow.notifier import PenstockNotifier, tell_retry
from penstock.airflow.pipeline_page import explain
from penstock.airflow.stage_operator import StageOperator
from penstock.airflow.steps import load as steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.declaration.pipeline import Pipeline

FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=10), timedelta(minutes=15)
# Airflow refuses a DAG with a longer one.
LONGEST_TAG = 100


def make_each(pipelines: Iterable[Pipeline]) -> tuple[dict[str, DAG], dict[str, Exception]]:
    """Make the DAG of each pipeline by itself: those that Airflow takes, and why it refuses the others, by name."""
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
    """Do what Airflow does with each DAG of a file: there a DAG that fails takes all others of its file with it."""
    dag.validate()
    DagSerialization.to_dict(dag)
    try:
        settings.dag_policy(dag)
        for task in dag.tasks:
            settings.task_policy(task)
    except AirflowClusterPolicySkipDag:
        return  # the site leaves it out, and Airflow will too


def make_dag(pipeline: Pipeline) -> DAG:
    """Make the DAG of a pipeline. It is Airflow's only once a DAG file holds it by a name."""
    asset = asset_of(pipeline.name)
    with DAG(
        pipeline.name,
        description=pipeline.description or f"Loads the topic {pipeline.topic} into {pipeline.target}, exactly once.",
        doc_md=explain(pipeline),
        schedule=pipeline.schedule,
        # What a missed run would have loaded, the next one loads.
        catchup=False,
        max_active_runs=1,
        tags=["penstock", shorten_tag(pipeline.topic), pipeline.mode, *pipeline.tags],
        default_args=_for_each_task(pipeline),
        auto_register=False,
    ) as dag:
        plan = ShortCircuitOperator(task_id="plan", python_callable=partial(steps.plan, pipeline))
        load_id: Any = plan.output
        stage = StageOperator(task_id="stage", load_id=load_id)
        validate = PythonOperator(task_id="validate", python_callable=steps.validate, op_args=[load_id])
        publish = PythonOperator(
            task_id="publish",
            python_callable=partial(steps.publish, asset),
            op_args=[load_id],
            outlets=[asset],
        )
        plan >> stage >> validate >> publish
    return dag


def shorten_tag(text: str) -> str:
    """Shorten a text to a tag that Airflow takes, and that is another one for another text."""
    if len(text) <= LONGEST_TAG:
        return text
    ending = f"...{sha256(text.encode()).hexdigest()[:12]}"
    return text[: LONGEST_TAG - len(ending)] + ending


def asset_of(pipeline: str) -> Asset:
    """What a pipeline updates when it publishes: schedule other DAGs by it."""
    return Asset(f"penstock://{pipeline}")


def _for_each_task(pipeline: Pipeline) -> dict[str, Any]:
    return {
        **retry(pipeline.retries),
        "owner": pipeline.owner,
        "execution_timeout": timedelta(minutes=pipeline.timeout_minutes),
        "on_failure_callback": PenstockNotifier(pipeline.name, pipeline.alerts),
        "on_retry_callback": tell_retry,
    }


def retry(times: int) -> dict[str, Any]:
    """How a task is tried again: after a while that doubles."""
    return {
        "retries": times,
        "retry_delay": FIRST_DELAY,
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": LONGEST_DELAY,
    }
