"""Kafka: requests to the cluster, and the readers of its logs. This package does not use the ledger."""
