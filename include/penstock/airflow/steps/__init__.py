"""What the tasks of the DAGs do."""
