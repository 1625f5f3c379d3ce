"""The DAGs, made of declarations."""
