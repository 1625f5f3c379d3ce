"""What a person decides: on held loads, losses, other topics, truncated logs and published loads."""
