"""Which target holds the rows of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.target.postgres.store import PostgresStore

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.target.base import TargetStore


def find_store(pipeline: Pipeline) -> TargetStore:
    """Give the place of a pipeline's rows. Every declared target is a PostgreSQL table so far."""
    return PostgresStore(pipeline)
