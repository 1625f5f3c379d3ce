"""The Airflow DAG by which a person publishes quarantined records that pass today's declaration."""

from __future__ import annotations

from penstock.airflow.dags.redrive import make_redrive_dag
from penstock.airflow.declarations import list_names

pipelines = list_names()
if pipelines:
    make_redrive_dag(pipelines)
