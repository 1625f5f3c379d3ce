"""The Airflow DAG that proves daily that what was published is still there, and that nothing is about to be lost."""

from __future__ import annotations

from penstock.airflow.dags.audit import make_audit_dag
from penstock.airflow.declarations import read_good

pipelines = read_good()
if pipelines:
    make_audit_dag(pipelines)
