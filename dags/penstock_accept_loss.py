"""The Airflow DAG by which a person records what the log of a pipeline has lost, and lets it go on."""

from __future__ import annotations

from penstock.airflow.dags.accept_loss import make_acceptance_dag
from penstock.airflow.declarations import read_good

pipelines = [pipeline.name for pipeline in read_good()]
if pipelines:
    make_acceptance_dag(pipelines)
