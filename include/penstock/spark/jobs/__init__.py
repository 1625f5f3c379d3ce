"""The jobs that spark-submit starts."""
