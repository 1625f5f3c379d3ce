"""One Airflow DAG for each valid declaration: penstock.airflow.dags wires it, penstock.airflow.steps does the work.

A DAG that Airflow refuses is left out here, and is an import error of penstock_broken_declarations.py.
"""

from __future__ import annotations

from penstock.airflow.dags.pipeline import make_each
from penstock.airflow.declarations import read_needed

made, _ = make_each(read_needed())
globals().update(made)
