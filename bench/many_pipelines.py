"""The start of a task, and the DAG processor, with one and with many pipelines: `python -m bench.many_pipelines`.

Each figure is of fresh processes that parse one DAG file as Airflow does; the numbers of pipelines take turns. The
import of Airflow is not in the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from rich.console import Console

from bench.contestants import PROJECT
from bench.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

DAGS = PROJECT / "dags"
SAMPLE = PROJECT / "include" / "pipelines" / "orders.yaml"
# The files that read declarations: what starts, its DAG and its task. The last one is the DAG processor's parse.
STARTS = (
    ("a task of a pipeline", "penstock_pipelines.py", "p000", "stage"),
    ("a task of the audit", "penstock_audit.py", "penstock_audit", "verify_p000"),
    ("a task of maintenance", "penstock_maintenance.py", "penstock_maintenance", "p000"),
    ("a task of a backfill", "penstock_backfill.py", "penstock_backfill", "plan"),
    ("the DAG processor, all pipelines", "penstock_pipelines.py", None, None),
    ("the DAG processor, the audit", "penstock_audit.py", None, None),
)
console = Console(stderr=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.many_pipelines", description=__doc__)
    parser.add_argument("--pipelines", type=int, nargs="+", default=[1, 500], help="how many pipelines; several")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is parsed")
    parser.add_argument("--parse", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.parse:
        return parse(*given.parse)
    print(f"{describe_machine()}; CPU seconds of a parse, medians of {given.rounds}\n")
    print(f"| parse | {' | '.join(f'{number:,} pipelines' for number in given.pipelines)} |")
    print(f"|{'---|' * (len(given.pipelines) + 1)}")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        folders = {number: declare(Path(folder) / str(number), number) for number in given.pipelines}
        for what, file, dag, task in STARTS:
            seconds: dict[int, list[float]] = {number: [] for number in given.pipelines}
            for round_ in range(given.rounds):
                for number in given.pipelines[:: 1 if round_ % 2 == 0 else -1]:
                    seconds[number].append(start(Path(folder), folders[number], file, dag, task))
                    console.print(what, number, seconds[number][-1])
            print(
                f"| {what} | {' | '.join(f'{statistics.median(each):.2f}' for each in seconds.values())} |", flush=True
            )
    return 0


def declare(folder: Path, number: int) -> Path:
    """Write declarations like the sample, each with a target of its own."""
    folder.mkdir()
    sample = yaml.safe_load(SAMPLE.read_text(encoding="utf-8"))
    for name in (f"p{each:03d}" for each in range(number)):
        declared = sample | {"name": name, "topic": name, "target": f"analytics.{name}"}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(declared, sort_keys=False), encoding="utf-8")
    return folder


def start(home: Path, pipelines: Path, file: str, dag: str | None, task: str | None) -> float:
    """Parse a DAG file in a fresh process; the CPU seconds of the parse."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PENSTOCK_PIPELINES": str(pipelines),
    }
    argv = [sys.executable, "-m", "bench.many_pipelines", "--parse", file, dag or "", task or ""]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True, cwd=PROJECT)
    return float(json.loads(done.stdout.splitlines()[-1]))


def parse(file: str, dag: str, task: str) -> int:
    """Parse one file, with the names that Airflow gives to the start of a task; print the CPU seconds."""
    from airflow.dag_processing.dagbag import DagBag

    if dag:
        os.environ["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = dag
        os.environ["_AIRFLOW_PARSING_CONTEXT_TASK_ID"] = task
    began = time.process_time()
    bag = DagBag(str(DAGS / file), safe_mode=False)
    spent = time.process_time() - began
    if bag.import_errors or (dag and list(bag.dags) != [dag]):
        raise SystemExit(f"{file} gave {sorted(bag.dags)[:5]}: {bag.import_errors}")
    print(json.dumps(spent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
