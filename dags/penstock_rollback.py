"""The Airflow DAG by which a person takes a published load out of its target, or puts it back."""

from __future__ import annotations

from penstock.airflow.dags.rollback import make_rollback_dag

make_rollback_dag()
