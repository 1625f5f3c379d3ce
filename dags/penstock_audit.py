"""The Airflow DAG that verifies every pipeline daily and warns before the log loses records."""

from __future__ import annotations

from penstock.airflow.dags.audit import make_audit_dag
from penstock.airflow.declarations import read_valid

pipelines = read_valid()
if pipelines:
    make_audit_dag(pipelines)
