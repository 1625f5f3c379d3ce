"""The benchmark: `make bench`, or `python -m bench --help`."""

from __future__ import annotations

import argparse
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bench.contestants import CONTESTANTS, PROJECT
from bench.machine import describe_machine
from bench.produce import fill_topic
from bench.report import print_report
from bench.results import Results, save_results
from bench.rounds import Run, Task, do_run, order_tasks
from bench.services import running_services
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.services import Services

SIZES = (4_000_000, 16_000_000)
MEMORY_SIZES = (1_000_000, 16_000_000)
FOLDER = PROJECT / ".penstock" / "bench"
RESULTS = PROJECT / "bench" / "results"
console = Console(stderr=True)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    names = [contestant.name for contestant in CONTESTANTS]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--records", type=int, nargs="+", default=list(SIZES), help="how many records; several sizes may be named"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often everybody runs at each size")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="measure these")
    parser.add_argument(
        "--once", nargs="+", choices=names, default=[], help="run these at the largest size in the first round only"
    )
    parser.add_argument(
        "--memory", action="store_true", help="only whether Penstock's memory stays flat from 1M to 16M"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the services keep their data")
    return parser.parse_args(arguments)


def choose_tasks(given: argparse.Namespace) -> list[Task]:
    """All runs, in their order."""
    if given.memory:
        return list(order_tasks(CONTESTANTS[:1], MEMORY_SIZES, 1, ()))
    chosen = [contestant for contestant in CONTESTANTS if contestant.name in given.only]
    tasks = list(order_tasks(chosen, given.records, given.rounds, given.once))
    if max(given.records) >= max(MEMORY_SIZES) and min(given.records) > min(MEMORY_SIZES) and "penstock" in given.only:
        return [Task(min(MEMORY_SIZES), 1, CONTESTANTS[0]), *tasks]
    return tasks


def fill_topics(services: Services, tasks: Sequence[Task]) -> dict[int, str]:
    """Fill the topic of every size."""
    topics = {}
    for records in sorted({task.records for task in tasks}):
        console.print(f"filling the topic of {records:,} records …")
        topics[records] = fill_topic(services.broker.bootstrap, records)
    return topics


def follow_runs(tasks: Sequence[Task], do: Callable[[Task], Run]) -> Iterator[Run]:
    """Do one run after the other, and print the result of each."""
    for number, task in enumerate(tasks, start=1):
        run = do(task)
        rate = f"[red]{run.error}[/red]" if run.error else f"{run.records / run.seconds:,.0f} rows/s"
        console.print(
            f"{number}/{len(tasks)} {task.contestant.title}, {task.records:,} records, round {task.round}: "
            f"{run.seconds:.1f} s, {rate}",
            highlight=False,
            soft_wrap=True,
        )
        yield run


def measure_all(given: argparse.Namespace) -> Results:
    """Do all runs, and save the results after each, so that an interrupted benchmark keeps them."""
    tasks = choose_tasks(given)
    path = RESULTS / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}.json"
    runs: list[Run] = []
    results = Results(describe_machine(), runs)
    scratch = given.folder / "runs"
    scratch.mkdir(parents=True, exist_ok=True)
    with running_services(given.folder) as services:
        topics = fill_topics(services, tasks)
        for run in follow_runs(tasks, lambda task: do_run(services, task, topics[task.records], scratch)):
            runs.append(run)
            save_results(path, results)
    console.print(
        f"written to {path.relative_to(PROJECT)}; `python -m bench.report` makes bench/SUMMARY.md of it.",
        soft_wrap=True,
    )
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say whether every run came out right. A figure that was wished for fails nothing."""
    given = parse_arguments(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = measure_all(given)
    except PenstockError as error:
        console.print(f"bench: {error}", style="red")
        return error.exit_code
    print_report(results)
    return 1 if any(run.error for run in results.runs) else 0
