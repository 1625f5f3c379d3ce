"""Alerts: what people are told of a pipeline, once."""
