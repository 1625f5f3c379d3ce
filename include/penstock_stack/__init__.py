"""The embedded stack: PostgreSQL from a wheel, a Kafka broker from its jars, Airflow, all in one folder."""
