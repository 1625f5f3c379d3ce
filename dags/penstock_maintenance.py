"""The Airflow DAG that merges the partitions of targets and drops what is past its keeping time, once a day."""

from __future__ import annotations

from penstock.orchestration.declared import read_good
from penstock.orchestration.maintenance_dag import make_maintenance_dag

pipelines = read_good()
if pipelines:
    make_maintenance_dag(pipelines)
