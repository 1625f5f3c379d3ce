"""The Airflow DAG that keeps the figures of the page up to date."""

from __future__ import annotations

from penstock.airflow.dags.sample import make_sample_dag

make_sample_dag()
