"""The Airflow DAG by which a person computes a result again from the rows of its target."""

from __future__ import annotations

from penstock.airflow.dags.rebuild import make_rebuild_dag
from penstock.airflow.declarations import read_valid

pipelines = [pipeline.name for pipeline in read_valid()]
if pipelines:
    make_rebuild_dag(pipelines)
