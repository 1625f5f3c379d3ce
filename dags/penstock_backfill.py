"""The Airflow DAG by which a person loads any range of a pipeline's log, for the first time or again."""

from __future__ import annotations

from penstock.airflow.dags.backfill import make_backfill_dag
from penstock.airflow.declarations import list_names

pipelines = list_names()
if pipelines:
    make_backfill_dag(pipelines)
