"""The cost of Penstock's own expectations: `python -m bench.quality`.

First whole runs with several sets of checks, each a fresh `penstock run` in a fresh database. Then, with
`--target-rows`, the checks across loads alone: one staged load against a target of so many rows.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from rich.console import Console

from bench import many_partitions, produce
from bench.contestants import PROJECT
from bench.machine import describe_machine
from bench.records import COLUMNS, describe_pipeline
from bench.services import running_services
from penstock.declaration.pipeline import Pipeline
from penstock.ledger.connection import connect, migrate
from penstock.ledger.generation import open_generation
from penstock.ledger.load import begin_attempt, create_load, finish_staging, keep_declaration, read_load
from penstock.ledger.pipeline import register_pipeline
from penstock.load.publish import publish_in
from penstock.load.validate import validate_load
from penstock.model.log import Identity
from penstock.model.ranges import Range
from penstock.target.postgres.attempt import attempt_table
from penstock.target.registry import find_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.services import Services
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

FOLDER = PROJECT / ".penstock" / "bench-quality"
ORDER: dict[str, Any] = {
    "expect": "expect_key_order_within_partition",
    "key": "customer",
    "order_by": "id",
    "severity": "info",
}
IDS: dict[str, Any] = {"expect": "expect_business_id_unique", "columns": ["id"], "severity": "info"}
PLACE: dict[str, Any] = {"expect": "expect_key_in_one_partition", "key": "customer", "severity": "info"}
NUMBERS: dict[str, Any] = {
    "expect": "expect_sequence_without_gaps",
    "key": "customer",
    "sequence": "id",
    "severity": "info",
}
ACROSS: dict[str, Any] = {"across": "100w"}
SETS: dict[str, list[dict[str, Any]]] = {
    "built-in only": [],
    "key order": [ORDER],
    "business id": [IDS],
    "key order and business id": [ORDER, IDS],
    "both, across loads": [ORDER | ACROSS, IDS | ACROSS],
}
SINGLE = {"key order": ORDER, "business id": IDS, "key in one partition": PLACE, "sequence": NUMBERS}
# Leaves as maintenance leaves them: at most nine of each size, ten times as large from one size to the next.
LEAF_ROWS = (10_000_000, 1_000_000, 100_000)
# The rows of the load that is checked, and the keys that it draws from a million.
LOAD_ROWS = 100_000
console = Console(stderr=True)


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its checks, the seconds of its stage and of its checks, and its largest process."""

    checks: str
    stage: float
    validate: float
    megabytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print tables in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000, help="how many records a run loads; 0 for no runs")
    parser.add_argument("--rounds", type=int, default=3, help="how often each set of checks runs")
    parser.add_argument("--target-rows", type=int, nargs="*", default=[], help="rows of the target; several")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the services keep their data")
    given = parser.parse_args(arguments)
    machine = describe_machine()
    with running_services(given.folder) as services:
        if given.records:
            runs = [run for number in range(given.rounds) for run in run_round(services, given.records, number)]
            print(f"{machine['day']}, {machine['machine']}; {given.records:,} records; seconds, medians.\n")
            print_runs(runs)
        for rows in given.target_rows:
            print(f"\n{machine['day']}; {LOAD_ROWS:,} rows against a target of {rows:,}; seconds.\n")
            print("| check | 1st run | 2nd run |\n|---|---|---|")
            db = services.make_database()
            fill_target(db, rows)
            check_once(db, rows, IDS)  # imports Great Expectations
            for name, check in SINGLE.items():
                print(f"| {name} | {' | '.join(f'{check_once(db, rows, check):.1f}' for _ in range(2))} |", flush=True)
    return 0


def run_round(services: Services, records: int, number: int) -> list[Run]:
    """Run each set of checks once; every other round has the reverse order."""
    topic = produce.fill_topic(services.broker.bootstrap, records)
    runs = []
    for name in list(SETS)[:: 1 if number % 2 == 0 else -1]:
        described = describe_pipeline(topic, records) | {"checks": SETS[name]}
        _, phases = many_partitions.run_penstock(services, described, records)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        runs.append(Run(name, phases[1], phases[2], peak))
        console.print(runs[-1])
    return runs


def print_runs(runs: Sequence[Run]) -> None:
    """Medians. The share is that of the checks in the time of the stage."""
    print("| checks | stage | all checks | share | largest process so far |\n|---|---|---|---|---|")
    for name in SETS:
        these = [run for run in runs if run.checks == name]
        stage, validate = (
            statistics.median(each) for each in ([run.stage for run in these], [run.validate for run in these])
        )
        peak = max(run.megabytes for run in these)
        print(f"| {name} | {stage:.1f} | {validate:.1f} | {100 * validate / stage:.0f} % | {peak} MB |")


def declare() -> Pipeline:
    """The pipeline of all single checks across loads, so that the target has their indexes."""
    described = describe_pipeline("bench", LOAD_ROWS) | {"checks": [check | ACROSS for check in SINGLE.values()]}
    return Pipeline.model_validate(described)


def fill_target(db: str, rows: int) -> None:
    """Publish leaves of falling size until the target has its rows."""
    migrate(db)
    done = 0
    with connect(db) as connection:
        while done < rows:
            leaf = next(size for size in LEAF_ROWS if rows - done >= 2 * size or size == LEAF_ROWS[-1])
            load = stage(connection, declare(), done, leaf)
            connection.execute(
                "update penstock.load set state = 'validated', validated_at = now() where load_id = %s", [load.load_id]
            )
            publish_in(connection, load.load_id)
            connection.commit()
            done += leaf
            console.print(f"{done:,} rows in the target")
    with psycopg.connect(db, autocommit=True) as connection:
        connection.execute("vacuum analyze")


def stage(connection: Connection, pipeline: Pipeline, first: int, rows: int, keys: int = 1_000_003) -> Load:
    """Stage a load of generated rows: a million keys or another number, ids and numbers that rise."""
    pipeline_id = register_pipeline(connection, pipeline)
    found = connection.execute("select max(generation_id) from penstock.generation").fetchone()
    generation = (found and found[0]) or open_generation(connection, pipeline_id, Identity("c", "t"), 1)
    connection.execute(
        "insert into penstock.position (generation_id, partition, position, origin)"
        " select %s, p, %s, 0 from generate_series(0, 3) p on conflict do nothing",
        [generation, first // 4],
    )
    ranges = [Range(partition, first // 4, (first + rows) // 4) for partition in range(4)]
    load = create_load(connection, pipeline_id, generation, pipeline, f"rows from {first}", ranges)
    store = find_store(pipeline)
    store.prepare(connection)
    store.prepare_indexes(connection)
    attempt = begin_attempt(connection, load)
    store.open_attempt(connection, load, attempt)
    columns = sql.SQL(", ").join(map(sql.Identifier, COLUMNS))
    connection.execute(
        sql.SQL(
            "insert into {} ({}, _load_id, _partition, _offset, _timestamp)"
            " select n, customer, 'DE', 9.99, 'EUR', now(), 'note', %s, customer %% 4,"
            " %s + row_number() over (partition by customer %% 4 order by n) - 1, now()"
            " from (select n, (n * 2654435761 %% %s) / 4 * 4 + n %% 4 as customer"
            " from generate_series(%s::bigint, %s) n) g"
        ).format(attempt_table(load.load_id, attempt), columns),
        [load.load_id, first // 4, keys, first, first + rows - 1],
    )
    connection.execute(
        "insert into penstock.stage_task select load_id, %s, partition, partition, from_offset, until_offset,"
        " until_offset - from_offset, 0, 0 from penstock.load_range where load_id = %s",
        [attempt, load.load_id],
    )
    store.seal(connection, load, attempt)
    finish_staging(connection, load, attempt)
    connection.commit()
    return read_load(connection, load.load_id)


def check_once(db: str, first: int, check: dict[str, Any]) -> float:
    """Validate a load with one check, less the time of the built-in checks; the load is discarded."""
    seconds = []
    for checks in ([], [check | ACROSS]):
        with connect(db) as connection:
            load = stage(connection, declare(), first, LOAD_ROWS)
            declared = Pipeline.model_validate(declare().model_dump(mode="json") | {"checks": checks})
            connection.execute(
                "update penstock.load set declaration_id = %s where load_id = %s",
                [keep_declaration(connection, declared), load.load_id],
            )
        began = time.monotonic()
        verdict = validate_load(db, load.load_id)
        seconds.append(time.monotonic() - began)
        assert verdict.passed, verdict.cause
        with connect(db) as connection:
            connection.execute("update penstock.load set state = 'discarded' where load_id = %s", [load.load_id])
    return seconds[1] - seconds[0]


if __name__ == "__main__":
    sys.exit(main())
