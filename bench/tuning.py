"""The gain of each choice: the same work with one constant changed at a time. `python -m bench.tuning --help`.

All but the flags of the JVM are measured in two plain processes, where Spark adds no noise.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from bench.changes import name_changes
from bench.contestants import CONTESTANTS, PROJECT
from bench.machine import describe_machine
from bench.report import make_errors, make_speeds, print_tables, render_parts
from bench.results import Results
from bench.rounds import do_run, order_tasks
from bench.run import FOLDER, fill_topics, follow_runs
from bench.services import running_services

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.contestants import Contestant

NATIVE, READING, STAGING = "penstock.kafka.readers.native", "penstock.kafka.readers.reading", "penstock.load.stage"
RUST = "penstock.kafka.readers.rust"
ONE_CHUNK = 1_000_000_000
PLAIN: dict[str, dict[str, Any]] = {
    "as it is": {},
    "queue of 1,000 records": {f"{NATIVE}:TUNING": {"queued.min.messages": 1_000}},
    "queue as librdkafka has it": {
        f"{NATIVE}:TUNING": {"queued.min.messages": 100_000, "queued.max.messages.kbytes": 65_536}
    },
    "fetches of 64 KiB": {f"{NATIVE}:TUNING": {"fetch.message.max.bytes": 65_536}},
    "fetches of 8 MiB": {f"{NATIVE}:TUNING": {"fetch.message.max.bytes": 8_388_608}},
    "consume() may wait 5 s": {f"{READING}:POLL_SECONDS": 5.0},
    "batches of 1,000 records": {f"{RUST}:BATCH_RECORDS": 1_000},
    "batches of 50,000 records": {f"{RUST}:BATCH_RECORDS": 50_000},
    "batches of 16 MiB": {f"{RUST}:BATCH_BYTES": 16 * 1024 * 1024},
    "chunks of 25,000 records": {f"{STAGING}:LEAST_CHUNK": 25_000, f"{STAGING}:MOST_CHUNK": 25_000},
    "one chunk a partition": {f"{STAGING}:LEAST_CHUNK": ONE_CHUNK, f"{STAGING}:MOST_CHUNK": ONE_CHUNK},
    "primary key before the COPY": {"bench.limits.workers:KEY": "first"},
    "primary key after the COPY": {"bench.limits.workers:KEY": "last"},
}
WHOLE: dict[str, dict[str, Any]] = {
    "Penstock": {},
    "Penstock, the JVM's own flags": {"penstock.spark.submit:QUICK_START": ""},
}


def make_variants() -> list[Contestant]:
    """One contestant for each change."""
    known = {contestant.name: contestant for contestant in CONTESTANTS}
    plain = [_vary(known["plain"], title, changes) for title, changes in PLAIN.items()]
    whole = [_vary(known["penstock"], title, changes) for title, changes in WHOLE.items()]
    return [*plain, *whole]


def _vary(contestant: Contestant, title: str, changes: dict[str, Any]) -> Contestant:
    environment = ["env", name_changes(changes)]
    command = contestant.command()
    if contestant.kind == "penstock":
        command = [sys.executable, "-m", "bench.changes", *command[1:]]
    return dataclasses.replace(contestant, name=title, title=title, command=lambda: [*environment, *command])


def main(arguments: Sequence[str]) -> int:
    """Measure every variant, print the table, and write it into bench/TUNING.md."""
    parser = argparse.ArgumentParser(prog="python -m bench.tuning", description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000, help="how many records")
    parser.add_argument("--rounds", type=int, default=3, help="how often each variant runs")
    given = parser.parse_args(arguments)
    variants = make_variants()
    tasks = list(order_tasks(variants, [given.records], given.rounds, ()))
    scratch = FOLDER / "runs"
    scratch.mkdir(parents=True, exist_ok=True)
    with running_services(FOLDER) as services:
        topics = fill_topics(services, tasks)
        runs = list(follow_runs(tasks, lambda task: do_run(services, task, topics[task.records], scratch)))
    results = Results(describe_machine(), runs)
    tables = [table for table in (make_speeds(results, variants, given.records), make_errors(results)) if table.rows]
    print_tables(tables)
    lines = ["# The gain of each choice", "", "Made by `python -m bench.tuning`.", *render_parts(results, tables)]
    (PROJECT / "bench" / "TUNING.md").write_text("\n".join(lines), encoding="utf-8")
    return 1 if any(run.error for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
