"""Whole loads with results and a transform: `python -m bench.result_runs`.

Each run is a fresh process in a fresh database. The current table of a million customers is also made by Structured
Streaming, with a merge in `foreachBatch`; both tables must have the same rows. While results are published, a reader
polls them.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from rich.console import Console

from bench import derived, many_partitions
from bench.contestants import PEER_COLUMNS, PROJECT, Place, submit_spark
from bench.machine import describe_machine
from bench.polling import Waits, polling
from bench.produce import fill_topic
from bench.records import COLUMNS, describe_pipeline
from bench.services import DATABASE, running_services

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.services import Services

FOLDER = PROJECT / ".penstock" / "bench-result-runs"
TRANSFORM = """
from pyspark.sql.functions import col, date_trunc

def add_columns(records):
    cents = (col("amount") * 100).cast("bigint")
    return records.withColumn("cents", cents).withColumn("hour", date_trunc("hour", col("placed")))
"""
MADE = {name: {"type": given["type"], "required": given.get("required", False)} for name, given in COLUMNS.items()}
SETS: dict[str, dict[str, Any]] = {
    "rows only": {},
    "upsert": {"results": [derived.UPSERT]},
    "totals": {"results": [derived.SUMS]},
    "transform": {
        "transform": "columns:add_columns",
        "input": COLUMNS,
        "columns": MADE | {"cents": {"type": "bigint"}, "hour": {"type": "timestamptz"}},
    },
    "distinct keys": {"results": [derived.UPSERT | {"key": ["id"]}]},
}
MERGED = "Spark, foreachBatch with a merge"
# The newest orders of all customers: their number, the sum of their ids, and of their places.
SUMS = "select count(*), sum(id)::bigint, sum({}::bigint) from {}"
console = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its wall clock and its phases in seconds, and the longest wait of a reader."""

    name: str
    seconds: float
    phases: tuple[float, ...] = ()
    waits: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.result_runs", description=__doc__)
    names = [*SETS, MERGED]
    parser.add_argument("--records", type=int, default=4_000_000, help="how many records a run loads")
    parser.add_argument("--rounds", type=int, default=3, help="how often each runs")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="measure these")
    parser.add_argument("--spread", action="store_true", help="the records of a customer are in all partitions")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the services keep their data")
    given = parser.parse_args(arguments)
    runs = []
    with running_services(given.folder) as services:
        topic = fill_topic(services.broker.bootstrap, given.records, keyed=not given.spread)
        for round_ in range(given.rounds):
            sums = set()
            for name in given.only[:: 1 if round_ % 2 == 0 else -1]:
                runs.append(merge(services, topic) if name == MERGED else load(services, topic, name, given.records))
                console.print(runs[-1])
                sums |= {find_sums(services, name)} - {None}
            assert len(sums) <= 1, f"the current tables differ: {sums}"
    print_table(runs, given.records)
    return 0


def load(services: Services, topic: str, name: str, records: int) -> Run:
    """Load the topic with the command line, like a user."""
    folder = services.folder / "transforms"
    folder.mkdir(exist_ok=True)
    (folder / "columns.py").write_text(TRANSFORM)
    described = describe_pipeline(topic, records) | SETS[name]
    waits = Waits()
    keyed = {"upsert": "customer", "distinct keys": "id"}
    beside = partial(polling, waits, "public.newest", keyed[name]) if name in keyed else nullcontext
    seconds, phases = many_partitions.run_penstock(services, described, records, beside)
    return Run(name, seconds, phases, str(waits))


def merge(services: Services, topic: str) -> Run:
    """Make the current table by Spark."""
    db = services.make_database()
    with psycopg.connect(db) as connection:
        columns = f'{PEER_COLUMNS}, partition int, "offset" bigint, "timestamp" timestamptz'
        connection.execute(
            f"create schema peer; create unlogged table peer.merging ({columns});"
            f"create table peer.newest ({columns}, primary key (customer))"
        )
    place = Place(db, services.broker.bootstrap, topic, 0, services.folder / "peer")
    began = time.monotonic()
    ran = subprocess.run(submit_spark("merge"), env=place.environment(), capture_output=True, text=True)  # noqa: PLW1510
    if ran.returncode:
        raise SystemExit(f"the merge failed: {ran.stderr}")
    return Run(MERGED, time.monotonic() - began)


def find_sums(services: Services, name: str) -> Any:  # noqa: ANN401
    """The sums of the current table by customer; None if the run makes none."""
    tables = {"upsert": ("_offset", "public.newest"), MERGED: ('"offset"', "peer.newest")}
    if name not in tables:
        return None
    with psycopg.connect(services.postgres.uri(DATABASE)) as connection:
        return connection.execute(SUMS.format(*tables[name])).fetchone()


def print_table(runs: Sequence[Run], records: int) -> None:
    """Medians, with the least and the most of the wall clock."""
    machine = describe_machine()
    print(f"{machine['day']}, {machine['machine']}, {machine['system']}; {records:,} records; seconds, medians.\n")
    print("| run | seconds | least-most | stage | validate | publish | longest wait of a reader |")
    print("|---|---|---|---|---|---|---|")
    named: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        named[run.name].append(run)
    for name, these in named.items():
        wall = [run.seconds for run in these]
        phases = [statistics.median(each) for each in zip(*(run.phases for run in these), strict=True)][1:]
        shown = [f"{seconds:.1f}" for seconds in phases] or [""] * 3
        print(
            f"| {name} | {statistics.median(wall):.1f} | {min(wall):.1f}-{max(wall):.1f} | {' | '.join(shown)} | "
            f"{'; '.join(run.waits for run in these)} |"
        )


if __name__ == "__main__":
    sys.exit(main())
