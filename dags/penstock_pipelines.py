"""One Airflow DAG for each pipeline that is declared: `make_dag` wires it, `penstock.orchestration` does the work."""

from __future__ import annotations

from penstock.orchestration.declared import read_good
from penstock.orchestration.pipeline_dag import make_dag

for pipeline in read_good():
    make_dag(pipeline)
