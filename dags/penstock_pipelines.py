"""One Airflow DAG for each pipeline that is declared: `make_dag` wires it, `penstock.orchestration` does the work.

A DAG that cannot be made is left out here, and is an import error of penstock_broken_declarations.py.
"""

from __future__ import annotations

from penstock.airflow.dags.pipeline import make_each
from penstock.airflow.declarations import read_good

made, _ = make_each(read_good())
globals().update(made)
