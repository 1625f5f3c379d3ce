"""Alerts: messages to people about a pipeline, each delivered once."""
