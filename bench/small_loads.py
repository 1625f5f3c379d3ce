"""Many pipelines of few records, loaded one after another by `penstock run`: `python -m bench.small_loads`.

Each pipeline has a topic of its own. They are loaded once with a Spark driver for each load, and once by a kept Spark
server; the start of the server is in no figure, and its first load is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from bench.contestants import PROJECT
from bench.machine import describe_machine
from bench.measure import measure
from bench.records import describe_pipeline, make_value
from bench.services import running_services
from penstock.ledger.connection import migrate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.services import Services

FOLDER = PROJECT / ".penstock" / "bench-small-loads"
BIN = Path(sys.executable).parent
WAYS = ("driver", "kept")
console = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Run:
    """The loads of all pipelines in one way: the wall clock of each, and the CPU seconds of all processes."""

    way: str
    seconds: tuple[float, ...]
    cpu_seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.small_loads", description=__doc__)
    parser.add_argument("--pipelines", type=int, default=50, help="how many pipelines")
    parser.add_argument("--records", type=int, default=1_000, help="how many records each pipeline has")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the services keep their data")
    given = parser.parse_args(arguments)
    with running_services(given.folder) as services:
        names = [f"small_{given.records}_{number}" for number in range(given.pipelines)]
        declared = services.folder / "pipelines"
        declared.mkdir(exist_ok=True)
        fill_topics(services.broker.bootstrap, names, given.records)
        for name in names:
            described = describe_pipeline(name, given.records) | {"name": name, "target": f"analytics.{name}"}
            (declared / f"{name}.yaml").write_text(yaml.safe_dump(described))
        runs = [load_all(services, way, names, given.records, declared) for way in given.ways]
    print_table(runs, given.records)
    return 0


def fill_topics(bootstrap: str, names: Sequence[str], records: int) -> None:
    """Produce the records of the topics that do not exist."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    missing = [name for name in names if name not in admin.list_topics(timeout=30).topics]
    created = admin.create_topics([NewTopic(name, 1, 1) for name in missing]) if missing else {}
    for each in created.values():
        each.result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000})
    for name in missing:
        for number in range(records):
            producer.produce(name, make_value(number))
            producer.poll(0)
    producer.flush(120)


def load_all(services: Services, way: str, names: Sequence[str], records: int, declared: Path) -> Run:
    """Load every pipeline, like a user, into a fresh database."""
    db = services.make_database()
    migrate(db)
    if way == "kept":
        services.spark.start()
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PENSTOCK_DB": db,
        "PENSTOCK_KAFKA": services.broker.bootstrap,
        "PENSTOCK_PIPELINES": str(declared),
        "PENSTOCK_SPARK_MASTER": services.spark.url if way == "kept" else "local[*]",
    }
    output, log = services.folder / "small.out", services.folder / "small.log"
    before = sum(services.read_cpu()) + services.read_spark_cpu()
    seconds, cpu = [], 0.0
    for name in names:
        began = time.monotonic()
        usage = measure([str(BIN / "penstock"), "run", name, "--json"], output, log, environment)
        seconds.append(time.monotonic() - began)
        cpu += usage.cpu_seconds
        if usage.exit_code or json.loads(output.read_text())["rows"] != records:
            raise SystemExit(f"the load of {name} failed: {log.read_text()}")
        console.print(f"{way} {name}: {usage.seconds:.2f} s, {usage.cpu_seconds:.2f} CPU s")
    return Run(way, tuple(seconds), cpu + sum(services.read_cpu()) + services.read_spark_cpu() - before)


def print_table(runs: Sequence[Run], records: int) -> None:
    """The wall clock of a load, and the CPU seconds of all loads with those of PostgreSQL, Kafka and the server."""
    machine = describe_machine()
    print(f"{machine['day']}, {machine['machine']}, {machine['system']}; {records:,} records a pipeline.\n")
    print("| way | loads | a load, median | least-most | the first | CPU s of all | CPU s a load |")
    print("|---|---|---|---|---|---|---|")
    for run in runs:
        print(
            f"| {run.way} | {len(run.seconds)} | {statistics.median(run.seconds):.1f} s"
            f" | {min(run.seconds):.1f}-{max(run.seconds):.1f} s | {run.seconds[0]:.1f} s | {run.cpu_seconds:.0f}"
            f" | {run.cpu_seconds / len(run.seconds):.1f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
