"""The Airflow DAG by which a person loads any range of a pipeline's log, for the first time or once more."""

from __future__ import annotations

from penstock.airflow.dags.backfill import make_backfill_dag
from penstock.airflow.declarations import read_good

pipelines = [pipeline.name for pipeline in read_good()]
if pipelines:
    make_backfill_dag(pipelines)
