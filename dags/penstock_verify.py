"""The Airflow DAG by which a person proves the rows of a pipeline."""

from __future__ import annotations

from penstock.airflow.dags.verify import make_verify_dag
from penstock.airflow.declarations import read_valid

pipelines = [pipeline.name for pipeline in read_valid()]
if pipelines:
    make_verify_dag(pipelines)
