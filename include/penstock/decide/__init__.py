"""Decisions of a person: on held loads, losses, other topics, truncated logs and published loads."""
