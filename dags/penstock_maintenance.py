"""The Airflow DAG that merges the partitions of targets and drops what is past its keeping time, once a day."""

from __future__ import annotations

from penstock.airflow.dags.maintenance import make_maintenance_dag
from penstock.airflow.declarations import read_good

pipelines = read_good()
if pipelines:
    make_maintenance_dag(pipelines)
