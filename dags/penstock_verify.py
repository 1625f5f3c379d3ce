"""The Airflow DAG by which a person proves the rows of a pipeline."""

from __future__ import annotations

from penstock.airflow.dags.verify import make_verify_dag
from penstock.airflow.declarations import list_names

pipelines = list_names()
if pipelines:
    make_verify_dag(pipelines)
