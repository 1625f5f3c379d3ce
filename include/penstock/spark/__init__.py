"""Spark: how a job is submitted, what its driver does, and how its errors come back."""
