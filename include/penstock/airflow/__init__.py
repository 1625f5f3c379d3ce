"""Penstock under Airflow: DAGs made of declarations, and what their tasks do."""
