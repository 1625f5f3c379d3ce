"""Spark: submitting a job, its driver, and the transport of its errors."""
