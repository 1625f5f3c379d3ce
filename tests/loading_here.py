"""Whole loads in the test's own process, by the product's own steps and in the session's Spark."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from penstock.ledger import open_ledger, read_load
from penstock.planning import plan_load
from penstock.publish import publish_load
from penstock.quality import validate_load
from penstock.staging import begin_staging, run_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.ledger import Load
    from penstock.pipeline import Pipeline
    from penstock.settings import Settings

_runs = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Loader:
    """One pipeline, and where to load it from and into."""

    settings: Settings
    pipeline: Pipeline
    spark: SparkSession

    def run(self) -> Load | None:
        """Load what is new; None if nothing is."""
        load = self.plan()
        if load is None:
            return None
        self.prepare(load.load_id)
        return self.publish(load.load_id)

    def plan(self) -> Load | None:
        """Plan as a run of its own."""
        return plan_load(self.settings.db, self.settings.kafka, self.pipeline, f"run {next(_runs)}").load

    def prepare(self, load_id: int) -> None:
        """Stage and validate."""
        self.stage(load_id)
        verdict = validate_load(self.settings.db, load_id)
        assert verdict.passed, verdict.told

    def stage(self, load_id: int) -> None:
        """Stage by a new attempt."""
        with open_ledger(self.settings.db) as connection:
            attempt = begin_staging(connection, load_id)
        assert attempt is not None, "the load is staged already"
        run_stage(self.settings, load_id, attempt, lambda: self.spark.sparkContext)

    def publish(self, load_id: int) -> Load:
        """Publish, and give the load as it is then."""
        publish_load(self.settings.db, load_id)
        with open_ledger(self.settings.db) as connection:
            return read_load(connection, load_id)


class MakeLoader(Protocol):
    """Makes the loader of the pipeline `orders` over a topic; changes go into its declaration."""

    def __call__(self, topic: str, bootstrap: str | None = None, **changes: Any) -> Loader: ...
