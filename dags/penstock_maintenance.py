"""The Airflow DAG that merges the partitions of targets and drops data past its keeping time, once a day."""

from __future__ import annotations

from penstock.airflow.dags.maintenance import make_maintenance_dag
from penstock.airflow.declarations import read_needed

pipelines = read_needed(str)
if pipelines:
    make_maintenance_dag(pipelines)
