"""Penstock loads Kafka topics into PostgreSQL, batch by batch, exactly once."""
