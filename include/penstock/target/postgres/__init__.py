"""Targets in PostgreSQL: a partitioned table, one leaf a load."""
