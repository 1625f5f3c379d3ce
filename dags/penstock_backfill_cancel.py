"""The Airflow DAG by which a person ends a backfill before all of its loads are published."""

from __future__ import annotations

from penstock.airflow.dags.backfill_cancel import make_cancel_dag

make_cancel_dag()
