"""Shows the mistakes of broken declarations as an import error, and makes no DAG.

Airflow keeps import errors by DAG file, and takes all DAGs of a file with an error for stale. So they are raised in a
file of their own: the good pipelines, made by penstock_pipelines.py, stay.
"""

from __future__ import annotations

from penstock.orchestration.declared import refuse_broken

refuse_broken()
