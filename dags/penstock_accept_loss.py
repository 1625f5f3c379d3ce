"""The Airflow DAG by which a person accepts the offsets that the log of a pipeline lost."""

from __future__ import annotations

from penstock.airflow.dags.accept_loss import make_acceptance_dag
from penstock.airflow.declarations import list_names

pipelines = list_names()
if pipelines:
    make_acceptance_dag(pipelines)
