"""The one PostgreSQL, the one broker and the one kept Spark server of all contestants, in a folder of their own."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import psycopg

from penstock.errors import PenstockError
from penstock_stack import ports
from penstock_stack.broker import Broker
from penstock_stack.kept_spark import KeptSpark
from penstock_stack.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATABASE = "bench"


@dataclass(frozen=True, slots=True)
class Services:
    """PostgreSQL and the broker run; the runs that need the Spark server start it."""

    folder: Path
    postgres: Postgres
    broker: Broker
    spark: KeptSpark

    def make_database(self) -> str:
        """A fresh database for one run, after all pages of the last run are written."""
        self.postgres.drop_database(DATABASE)
        uri = self.postgres.create_database(DATABASE)
        self.checkpoint()
        return uri

    def checkpoint(self) -> None:
        """Write all changed pages to disk."""
        with psycopg.connect(self.postgres.uri("postgres"), autocommit=True) as connection:
            connection.execute("checkpoint")

    def read_spark_cpu(self) -> float:
        """The CPU seconds of the kept Spark server so far, with its Python workers; 0 if it does not run."""
        members = [child.pid for pid in self.spark.pids() for child in psutil.Process(pid).children(recursive=True)]
        return sum(map(_read_cpu, [*self.spark.pids(), *members]))

    def read_cpu(self) -> tuple[float, float]:
        """The CPU seconds of PostgreSQL and of the broker so far, ended backends included."""
        return sum(map(_read_cpu, self.postgres.pids())), sum(map(_read_cpu, self.broker.pids()))


def _read_cpu(pid: int) -> float:
    # A postmaster's own figures hold those of its children that have ended.
    with suppress(psutil.NoSuchProcess):
        return float(sum(psutil.Process(pid).cpu_times()[:4]))
    return 0.0


@contextmanager
def running_services(folder: Path) -> Iterator[Services]:
    """Start both, and stop both in the end. The topics stay for the next time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PenstockError("another benchmark is running.", next_step="wait until it has ended.") from None
        postgres = Postgres(folder / "postgres", *ports.choose(1))
        broker = Broker(folder / "kafka", *ports.choose(2))
        spark = KeptSpark(folder / "spark", *ports.choose(1))
        spark.kill()
        broker.kill()  # a killed benchmark may have left a broker at another port
        try:
            postgres.start()
            broker.start()
            yield Services(folder, postgres, broker, spark)
        finally:
            spark.stop()
            postgres.stop()
            broker.stop()
