"""Values and decisions without input or output: ranges, plans, loads and their states, the health of a pipeline."""
