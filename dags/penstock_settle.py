"""The Airflow DAG by which a person approves or discards a load that is held."""

from __future__ import annotations

from penstock.orchestration.settle_dag import make_settle_dag

make_settle_dag()
