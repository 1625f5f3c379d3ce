"""The functions that tasks run: one file a DAG. Each calls one step of Penstock and logs its result."""
