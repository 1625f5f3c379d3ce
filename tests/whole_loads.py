"""Whole loads inside the test's process: planned, staged by the shared Spark session, validated, published."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from penstock.backfill.plan import plan_backfill
from penstock.backfill.request import Request
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_load
from penstock.load.plan import plan_load
from penstock.load.publish import publish_load
from penstock.load.stage import begin_staging, run_stage
from penstock.load.validate import validate_load
from penstock.settings import Settings
from penstock.spark.driver import DriverExecutors
from penstock.spark.jobs.stage import read_again
from penstock.verify.reread import run_reread
from penstock.verify.run import verify_pipeline
from privileges import superuser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from penstock.backfill.plan import Backfill
    from penstock.backfill.request import Selection
    from penstock.declaration.pipeline import Pipeline
    from penstock.model.load import Load
    from penstock.model.ranges import Range
    from penstock.verify.rotation import Rotation
    from penstock.verify.run import Verified

_runs = itertools.count(1)


@dataclass(slots=True)
class Loader:
    """Loads one pipeline."""

    db: str
    bootstrap: str
    spark: SparkSession = field(repr=False)
    pipeline: Pipeline
    client: dict[str, str] = field(default_factory=dict)  # more settings of the Kafka client
    transforms: Path | None = None  # the folder of transforms
    rust: bool = True

    @property
    def settings(self) -> Settings:
        kafka = {"bootstrap.servers": self.bootstrap, **self.client}
        return Settings(self.db, kafka, Path(os.devnull), "local[2]", transforms=self.transforms, rust=self.rust)

    def plan(self) -> Load | None:
        """Plan a live load in a run of its own; None if there are no new records."""
        return plan_load(self.db, self.settings.kafka, self.pipeline, f"live {next(_runs)}").load

    def run(self) -> Load | None:
        """Load the new records, and return the published load; None if there are no new records."""
        load = self.plan()
        if load is None:
            return None
        self.stage(load.load_id)
        return self.publish(load.load_id)

    def publish(self, load_id: int) -> Load:
        """Publish, and return the published load."""
        publish_load(self.db, self.settings.kafka, load_id)
        with open_ledger(self.db) as connection:
            return read_load(connection, load_id)

    def load(self) -> int:
        """Load the new records."""
        load = self.run()
        assert load is not None, "there are no new records"
        return load.load_id

    def plan_backfill(
        self, selection: Selection, *, replace: bool = False, per_load: int | None = None, run: str | None = None
    ) -> Backfill:
        request = Request(selection, "tester", replace, per_load)
        return plan_backfill(self.db, self.settings.kafka, self.pipeline, request, run or f"backfill {next(_runs)}")

    def backfill(self, selection: Selection, *, replace: bool = False, per_load: int | None = None) -> list[int]:
        """Run a whole backfill; return the ids of its loads."""
        planned = self.plan_backfill(selection, replace=replace, per_load=per_load)
        for load_id in planned.load_ids:
            self.finish(load_id)
        return list(planned.load_ids)

    def stage(self, load_id: int) -> None:
        """Stage and validate."""
        self.stage_rows(load_id)
        assert validate_load(self.db, load_id, None, self.settings.kafka).passed

    def stage_rows(self, load_id: int) -> None:
        """Stage only."""
        attempt = begin_staging(self.db, load_id)
        assert attempt is not None
        run_stage(self.settings, load_id, attempt, lambda: DriverExecutors(self.spark.sparkContext), read_again)

    def finish(self, load_id: int) -> None:
        """Do all steps after the plan."""
        self.stage(load_id)
        publish_load(self.db, self.settings.kafka, load_id)

    def verify(self, share: float = 1.0, ranges: Sequence[Range] = (), rotation: Rotation | None = None) -> Verified:
        """Verify the pipeline, with the session's Spark as the other reader."""
        verified = verify_pipeline(
            self.settings,
            self.pipeline,
            "tester",
            share,
            lambda settings, verification: run_reread(
                settings, verification, lambda: DriverExecutors(self.spark.sparkContext)
            ),
            ranges,
            rotation,
        )
        assert verified is not None, "there are published loads"
        return verified

    def query(self, sql: str) -> list[Any]:
        with psycopg.connect(superuser(self.db)) as connection:
            return connection.execute(sql.encode()).fetchall()

    def rows(self) -> list[Any]:
        """Every row of the target, without the number of its load."""
        columns = ", ".join(column.name for column in self.pipeline.columns)
        return self.query(
            f"select _partition, _offset, _timestamp, {columns} from {self.pipeline.target} order by 1, 2"
        )

    def gaps(self) -> list[tuple[int, int, int]]:
        return self.query("select partition, from_offset, until_offset from penstock.gaps order by 1, 2")

    def covered(self) -> list[tuple[int, int, int, int]]:
        return self.query("select partition, from_offset, until_offset, load_id from penstock.covered order by 1, 2")

    def observed(self, load_id: int, expectation: str, partition: int | None = None) -> dict[str, Any]:
        """The figures of a check of a load, or of one of its partitions."""
        place = "null" if partition is None else partition
        [[observed]] = self.query(
            f"select observed from penstock.check_results where load_id = {load_id} and expectation = '{expectation}'"
            f" and partition is not distinct from {place}"
        )
        return dict(observed)

    def state(self, load_id: int) -> str:
        return str(self.query(f"select state from penstock.loads where load_id = {load_id}")[0][0])


class MakeLoader(Protocol):
    """Makes the loader of the pipeline `orders` over a topic; changes go into its declaration."""

    def __call__(self, topic: str, bootstrap: str | None = None, **changes: Any) -> Loader: ...
