"""The Airflow DAG that verifies every pipeline daily and warns before the log loses records."""

from __future__ import annotations

from penstock.airflow.dags.audit import make_audit_dag, name_pipeline
from penstock.airflow.declarations import read_needed

pipelines = read_needed(name_pipeline)
if pipelines:
    make_audit_dag(pipelines)
