"""Penstock under Airflow: DAGs made from declarations, and the steps of their tasks."""
