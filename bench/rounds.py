"""One run of one contestant, checked; and the order of all runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from bench.contestants import Contestant, Place
from bench.measure import measure
from bench.phases import read_log, read_phases
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from bench.measure import Usage
    from bench.services import Services


@dataclass(frozen=True, slots=True)
class Task:
    """A run in the future."""

    records: int
    round: int
    contestant: Contestant


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run. If it has an `error`, its figures are not used."""

    contestant: str
    records: int
    round: int
    seconds: float
    working_seconds: float | None  # of a limit: without the start of its processes
    cpu_seconds: float
    postgres_cpu_seconds: float
    kafka_cpu_seconds: float
    peak_bytes: int
    phases: dict[str, float] | None
    error: str | None = None


def order_tasks(
    contestants: Sequence[Contestant], sizes: Sequence[int], rounds: int, once: Collection[str]
) -> Iterator[Task]:
    """Every round at every size; every other round backwards, so that the predecessor of a contestant changes.

    Those named in `once` run at the largest size in the first round only.
    """
    for records in sorted(sizes):
        for number in range(1, rounds + 1):
            for contestant in contestants if number % 2 else contestants[::-1]:
                if number == 1 or records < max(sizes) or contestant.name not in once:
                    yield Task(records, number, contestant)


def do_run(services: Services, task: Task, topic: str, folder: Path) -> Run:
    """Do one run in a fresh database, and check its rows."""
    contestant = task.contestant
    db = services.make_database()
    contestant.prepare(db)
    services.checkpoint()
    if contestant.keeps_spark:
        services.spark.start()
    master = services.spark.url if contestant.keeps_spark else "local[*]"
    place = Place(db, services.broker.bootstrap, topic, task.records, folder, master)
    output = folder / f"{contestant.name}.out"
    command, environment = contestant.command(), place.environment()
    log_began, cpu, of_spark = services.postgres.log.stat().st_size, services.read_cpu(), services.read_spark_cpu()
    usage = measure(command, output, folder / f"{contestant.name}.log", environment)
    used = [after - before for after, before in zip(services.read_cpu(), cpu, strict=True)]
    if contestant.keeps_spark:
        usage = replace(usage, cpu_seconds=usage.cpu_seconds + services.read_spark_cpu() - of_spark)
    error = f"exit code {usage.exit_code}" if usage.exit_code else find_mistake(contestant, place, output)
    phases = None
    if contestant.kind == "penstock" and error is None:
        phases = read_phases(db, usage.started_at, usage.seconds, read_log(services.postgres.log, log_began))
    working = None if error or contestant.kind != "limit" else _read_told(output)["seconds"]
    return _note(task, usage, used, working, phases, error)


def _note(
    task: Task,
    usage: Usage,
    used: list[float],
    working: float | None,
    phases: dict[str, float] | None,
    error: str | None,
) -> Run:
    return Run(
        contestant=task.contestant.name,
        records=task.records,
        round=task.round,
        seconds=usage.seconds,
        working_seconds=working,
        cpu_seconds=usage.cpu_seconds,
        postgres_cpu_seconds=used[0],
        kafka_cpu_seconds=used[1],
        peak_bytes=usage.peak_bytes,
        phases=phases,
        error=error,
    )


def find_mistake(contestant: Contestant, place: Place, output: Path) -> str | None:
    """Describe the mistake in the rows of a run, or None."""
    try:
        count, total = _count(contestant, place, output)
    except (psycopg.Error, PenstockError, ValueError, KeyError) as error:
        return f"its rows cannot be counted: {error}"
    if count != place.records:
        return f"{count} rows where {place.records} were produced"
    if contestant.numbered and total not in (None, count * (count - 1) // 2):
        return "the ids of its rows are not those of the records"
    return None


def _count(contestant: Contestant, place: Place, output: Path) -> tuple[int, int | None]:
    if contestant.table is None:
        return int(_read_told(output)["rows"]), None
    table = sql.Identifier(*contestant.table.split("."))
    with psycopg.connect(place.db) as connection:
        # One process: its speed does not matter, and no worker may be left when the next run starts.
        connection.execute("set max_parallel_workers_per_gather = 0")
        row = connection.execute(sql.SQL("select count(*), sum(id)::bigint from {}").format(table)).fetchone()
    assert row is not None
    return row[0], row[1]


def _read_told(output: Path) -> dict[str, Any]:
    return dict(json.loads(output.read_text(encoding="utf-8")))
