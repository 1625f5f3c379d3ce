"""The Airflow DAG by which a person computes a result again from the rows of its target."""

from __future__ import annotations

from penstock.airflow.dags.rebuild import make_rebuild_dag
from penstock.airflow.declarations import list_names

pipelines = list_names()
if pipelines:
    make_rebuild_dag(pipelines)
