"""Records of other shapes by both record paths: `python -m bench.record_shapes`.

Values of 1 KB, rows of 50 columns in nested objects, and topics of which each fifth record is poison. Each run is a
fresh `penstock run` in a fresh database; the paths take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from rich.console import Console

from bench.contestants import PROJECT
from bench.machine import describe_machine
from bench.many_partitions import fill_topic, run_penstock
from bench.records import COLUMNS, PARTITIONS, describe_pipeline, make_value
from bench.services import DATABASE, running_services

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.services import Services

FOLDER = PROJECT / ".penstock" / "bench-record-shapes"
PATHS = ("rust", "python")
GROUPS = 10
TYPES = ("bigint", "double precision", "text", "timestamptz", "boolean")
console = Console(stderr=True)


def make_long(number: int) -> bytes:
    """A value of 1 KB."""
    return make_value(number)[:-2] + b" and more" * 96 + b'"}'


def make_wide(number: int) -> bytes:
    """A value of 50 columns, in ten objects of two levels."""
    group = b'{"count":%d,"deep":{"ratio":%d.%03d,"name":"item %d"},"at":"2025-03-04T05:06:%02d.250Z","open":%b}'
    groups = (
        b'"g%d":' % place
        + group
        % (number + place, number % 97, number % 1000, number * 7, number % 60, b"true" if number % 3 else b"false")
        for place in range(GROUPS)
    )
    return b"{" + b",".join(groups) + b"}"


def make_poisoned(number: int) -> bytes:
    """A value of which each fifth is poison, of three kinds in turn."""
    value = make_value(number)
    if number % 5:
        return value
    return (value[:-1], value.replace(b'"id"', b'"no"'), value.replace(b"2025-", b"20x5-"))[number // 5 % 3]


WIDE = {
    f"g{place}_{name}": {"type": type_, "path": f"$.g{place}.{path}"}
    for place in range(GROUPS)
    for name, path, type_ in zip(
        ("count", "ratio", "name", "at", "open"), ("count", "deep.ratio", "deep.name", "at", "open"), TYPES, strict=True
    )
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape of records: how a value is made, the columns, and how many of five records become rows."""

    name: str
    make: Callable[[int], bytes]
    columns: dict[str, dict[str, Any]]
    accepted: int = 5


SHAPES = (
    Shape("1 KB values", make_long, COLUMNS),
    Shape("50 nested columns", make_wide, WIDE),
    Shape("20 % poison", make_poisoned, COLUMNS, accepted=4),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.record_shapes", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="how many records of each shape")
    parser.add_argument("--rounds", type=int, default=3, help="how often each runs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the services keep their data")
    given = parser.parse_args(arguments)
    runs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with running_services(given.folder) as services:
        for number, shape in enumerate(SHAPES):
            topic = fill_topic(services, f"shape_{number}_{given.records}", PARTITIONS, given.records, shape.make)
            for round_ in range(given.rounds):
                for path in PATHS[:: 1 if round_ % 2 == 0 else -1]:
                    run = load(services, topic, shape, path, given.records)
                    runs.setdefault((shape.name, path), []).append(run)
                    console.print(f"{shape.name}, {path}: {run[0]:.1f} s, stage {run[1]:.1f} s")
    print_table(runs, given.records)
    return 0


def load(services: Services, topic: str, shape: Shape, path: str, records: int) -> tuple[float, float]:
    """Load the topic by one path; the wall clock, and the time of the stage."""
    os.environ["PENSTOCK_RUST"] = {"rust": "on", "python": "off"}[path]
    described = describe_pipeline(topic, records) | {"columns": shape.columns}
    seconds, phases = run_penstock(services, described, records * shape.accepted // 5)
    with psycopg.connect(services.postgres.uri(DATABASE)) as connection:
        assert connection.execute("select path from penstock.loads").fetchall() == [(path,)]
    return seconds, phases[1]


def print_table(runs: dict[tuple[str, str], list[tuple[float, float]]], records: int) -> None:
    """Medians of the wall clock and of the stage, by shape and path."""
    machine = describe_machine()
    print(f"{machine['day']}, {machine['machine']}, {machine['system']}; {records:,} records; seconds, medians.\n")
    print("| records | path | run | least-most | stage |")
    print("|---|---|---|---|---|")
    for (name, path), found in runs.items():
        seconds = [run[0] for run in found]
        stage = statistics.median(run[1] for run in found)
        least, most = min(seconds), max(seconds)
        print(f"| {name} | {path} | {statistics.median(seconds):.1f} | {least:.1f}-{most:.1f} | {stage:.1f} |")


if __name__ == "__main__":
    sys.exit(main())
