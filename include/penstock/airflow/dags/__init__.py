"""The DAGs: one file a DAG, with its page and its form. Their tasks run the functions of penstock.airflow.steps."""
