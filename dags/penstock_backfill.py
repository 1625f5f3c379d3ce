"""The Airflow DAG by which a person loads any range of a pipeline's log, for the first time or once more."""

from __future__ import annotations

from penstock.orchestration.backfill_dag import make_backfill_dag
from penstock.orchestration.declared import read_good

pipelines = [pipeline.name for pipeline in read_good()]
if pipelines:
    make_backfill_dag(pipelines)
