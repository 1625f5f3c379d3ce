"""The Airflow DAG by which a person approves or discards a load that is held."""

from __future__ import annotations

from penstock.airflow.dags.settle import make_settle_dag

make_settle_dag()
