"""Shows the mistakes of broken declarations, and DAGs that cannot be made, as an import error; makes no Airflow DAG.

Airflow keeps import errors by DAG file, and takes all DAGs of a file with an error for stale. So they are raised in a
file of their own: the good pipelines, made by penstock_pipelines.py, stay.
"""

from __future__ import annotations

from penstock.airflow.dags.pipeline import make_each
from penstock.airflow.declarations import read_good, refuse_broken

refuse_broken(make_each(read_good())[1])
