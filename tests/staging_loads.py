"""Loads on the real services, planned and with a first attempt, for tests that stage them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from declaring import declare
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import read_load
from penstock.load.plan import plan_load
from penstock.load.stage import begin_staging, run_stage
from penstock.settings import Settings
from penstock.spark.driver import DriverExecutors
from privileges import superuser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.model.load import Load


@dataclass(frozen=True, slots=True)
class Begun:
    """A load whose first attempt has begun."""

    settings: Settings
    load_id: int
    attempt: int

    def stage(self, spark: SparkSession, attempt: int | None = None) -> None:
        run_stage(self.settings, self.load_id, attempt or self.attempt, lambda: DriverExecutors(spark.sparkContext))

    def load(self) -> Load:
        with open_ledger(self.settings.db) as connection:
            return read_load(connection, self.load_id)

    def begin_again(self) -> int:
        attempt = begin_staging(self.settings.db, self.load_id)
        assert attempt is not None, "the load is staged already"
        return attempt

    def query(self, sql: str) -> list[Any]:
        with psycopg.connect(self.settings.db) as connection:
            return connection.execute(sql).fetchall()

    def staged(self) -> list[tuple[int, int]]:
        """Partition and offset of every row in the attempt's table."""
        return self.query(
            f"select _partition, _offset from penstock_stage.load_{self.load_id}_{self.attempt} order by 1, 2"
        )

    def quarantined(self) -> list[tuple[int, int]]:
        return self.query(
            f'select partition, "offset" from penstock.quarantine where attempt = {self.attempt} order by 1, 2'
        )


def begin(db: str, bootstrap: str, topic: str, master: str = "local[2]", **changes: Any) -> Begun:
    """Plan a load of all records of a topic, and begin its first attempt."""
    settings = Settings(db, {"bootstrap.servers": bootstrap}, Path(os.devnull), master)
    load = plan_load(db, settings.kafka, declare(topic, **changes), "run").load
    assert load is not None, "the topic is empty"
    attempt = begin_staging(db, load.load_id)
    assert attempt is not None, "the load is staged already"
    return Begun(settings, load.load_id, attempt)


def fill_disk(db: str) -> None:
    """Fail all tasks of the database: the first try as a full disk does, later tries as a server that has ended."""
    with psycopg.connect(superuser(db)) as connection:
        connection.execute(
            "create sequence public.tries; grant all on sequence public.tries to public;"
            "create function public.fail_for_test() returns trigger language plpgsql as"
            " $$begin"
            "  if nextval('public.tries') = 1 then"
            "   raise exception 'could not extend file \"base/5/1\": No space left on device' using errcode = '53100';"
            "  end if;"
            "  perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(60);"
            " end$$;"
            "create trigger fail before insert on penstock.stage_task for each row execute function fail_for_test()"
        )
