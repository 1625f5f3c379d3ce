"""The same records loaded from few and from many partitions: `python -m bench.many_partitions`.

Each run is a fresh `penstock run` in a fresh database; the sizes take turns, and so do the readers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from bench.contestants import PROJECT
from bench.machine import describe_machine
from bench.records import PIPELINE, describe_pipeline, make_value
from bench.services import running_services
from penstock.kafka.admin import read_log
from penstock.ledger.connection import migrate
from penstock_stack.processes import await_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from bench.services import Services

FOLDER = PROJECT / ".penstock" / "bench-many-partitions"
BIN = Path(sys.executable).parent
# From the load's plan to its publish, and the parts between.
PHASES = """
select extract(epoch from staging_at - planned_at), extract(epoch from staged_at - staging_at),
       extract(epoch from validated_at - staged_at), extract(epoch from published_at - validated_at)
from penstock.load
"""
console = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Run:
    """One run: how many partitions, which reader, its wall clock and its phases, in seconds."""

    partitions: int
    reader: str
    seconds: float
    phases: tuple[float, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.many_partitions", description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[4, 1000], help="how many partitions; several")
    parser.add_argument("--records", type=int, default=200_000, help="how many records in all")
    parser.add_argument("--readers", nargs="+", choices=("native", "spark"), default=["native", "spark"])
    parser.add_argument("--rounds", type=int, default=3, help="how often each runs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the services keep their data")
    given = parser.parse_args(arguments)
    runs: list[Run] = []
    with running_services(given.folder) as services:
        topics = {
            number: fill_topic(services, f"many_{number}_{given.records}", number, given.records, make_value)
            for number in given.partitions
        }
        for round_ in range(given.rounds):
            for reader in given.readers:
                for number in given.partitions[:: 1 if round_ % 2 == 0 else -1]:
                    runs.append(load(services, topics[number], number, reader, given.records))
                    console.print(runs[-1])
    print_table(runs, given.records)
    return 0


def fill_topic(services: Services, topic: str, partitions: int, records: int, make: Callable[[int], bytes]) -> str:
    """Produce the records evenly; a full topic is used again."""
    bootstrap = services.broker.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    if topic in admin.list_topics(timeout=30).topics:
        return topic
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)

    def led() -> bool:
        known = admin.list_topics(topic, timeout=30).topics[topic].partitions
        return len(known) == partitions and all(partition.leader >= 0 for partition in known.values())

    await_condition(led, 120, f"topic {topic} has its partitions")
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 100, "queue.buffering.max.messages": 1_000_000})
    for number in range(records):
        producer.produce(topic, make(number), partition=number % partitions)
        producer.poll(0)
        if number % 100_000 == 0:
            producer.flush(120)  # the client holds 1 GB at most
    producer.flush(120)
    ends = read_log({"bootstrap.servers": bootstrap}, topic, "read_committed").partitions.values()
    assert sum(partition.end for partition in ends) == records, "not all records were acknowledged"
    return topic


def load(services: Services, topic: str, partitions: int, reader: str, records: int) -> Run:
    """Load the topic with the command line, like a user."""
    described = describe_pipeline(topic, records) | {"reader": reader}
    seconds, phases = run_penstock(services, described, records)
    return Run(partitions, reader, seconds, phases)


def run_penstock(
    services: Services,
    described: dict[str, Any],
    records: int,
    beside: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> tuple[float, tuple[float, ...]]:
    """Load all records by a declaration, in a fresh database; the wall clock and the phases, in seconds."""
    db = services.make_database()
    migrate(db)
    folder = services.folder / "pipelines"
    folder.mkdir(exist_ok=True)
    (folder / f"{PIPELINE}.yaml").write_text(yaml.safe_dump(described))
    environment = {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "PENSTOCK_DB": db,
        "PENSTOCK_KAFKA": services.broker.bootstrap,
        "PENSTOCK_PIPELINES": str(folder),
    }
    began = time.monotonic()
    command = [str(BIN / "penstock"), "run", PIPELINE, "--json"]
    with beside(db):
        ran = subprocess.run(command, env=environment, capture_output=True, text=True)  # noqa: PLW1510
    seconds = time.monotonic() - began
    if ran.returncode:
        raise SystemExit(f"the run of {described['topic']} failed: {ran.stderr}")
    assert json.loads(ran.stdout)["rows"] == records, ran.stdout
    with psycopg.connect(db) as connection:
        (phases,) = connection.execute(PHASES).fetchall()
    return seconds, tuple(map(float, phases))


def print_table(runs: Sequence[Run], records: int) -> None:
    """Medians, with the least and the most of the wall clock."""
    machine = describe_machine()
    print(f"{machine['day']}, {machine['machine']}, {machine['system']}; {records:,} records; seconds, medians.\n")
    print("| reader | partitions | run | least-most | plan to stage | stage | validate | publish |")
    print("|---|---|---|---|---|---|---|---|")
    for reader, partitions in dict.fromkeys((run.reader, run.partitions) for run in runs):
        these = [run for run in runs if (run.reader, run.partitions) == (reader, partitions)]
        wall = [run.seconds for run in these]
        phases = [statistics.median(run.phases[place] for run in these) for place in range(4)]
        print(
            f"| {reader} | {partitions:,} | {statistics.median(wall):.1f} | {min(wall):.1f}-{max(wall):.1f} | "
            + " | ".join(f"{seconds:.2f}" for seconds in phases)
            + " |"
        )


if __name__ == "__main__":
    sys.exit(main())
