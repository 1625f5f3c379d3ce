"""The Airflow DAG that finds trouble which no run reports, and sends the notices that are due."""

from __future__ import annotations

from penstock.airflow.dags.notices import make_notices_dag

make_notices_dag()
