"""The Airflow DAG by which a person drops the contents of quarantined records."""

from __future__ import annotations

from penstock.airflow.dags.quarantine_drop import make_drop_dag
from penstock.airflow.declarations import list_names

pipelines = list_names()
if pipelines:
    make_drop_dag(pipelines)
