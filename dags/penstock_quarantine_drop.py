"""The Airflow DAG by which a person drops the contents of quarantined records."""

from __future__ import annotations

from penstock.airflow.dags.quarantine_drop import make_drop_dag
from penstock.airflow.declarations import read_valid

pipelines = [pipeline.name for pipeline in read_valid()]
if pipelines:
    make_drop_dag(pipelines)
