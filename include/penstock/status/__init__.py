"""The status of pipelines."""
