"""Shows invalid declarations, and DAGs that Airflow refuses, as an import error of this file; makes no Airflow DAG.

Airflow keeps one import error a file, and treats all DAGs of a file with an error as stale. The errors are raised here,
so that the DAGs of the valid pipelines, which penstock_pipelines.py makes, stay.
"""

from __future__ import annotations

from penstock.airflow.dags.pipeline import make_each
from penstock.airflow.declarations import raise_invalid

raise_invalid(lambda pipelines: make_each(pipelines)[1])
