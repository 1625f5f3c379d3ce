"""Metrics for OpenTelemetry: the figures of the ledger. The exporter is an optional package, imported at its use."""
