"""From decoded values to columns of rows."""
