"""The speed of planning, publishing, status and a query by time with many loads: `python -m bench.many_loads`.

Loads of a few rows are staged by SQL, as their tasks would leave them, and published by the real transaction. Planning
and status ask the real broker. One run merges leaves after each hundred loads, the other never does.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg import sql
from rich.console import Console

from bench.contestants import PROJECT
from bench.machine import describe_machine
from bench.polling import running_beside
from bench.services import running_services
from penstock.declaration.pipeline import Pipeline
from penstock.kafka.admin import read_log
from penstock.ledger.connection import connect, migrate, open_ledger
from penstock.ledger.generation import read_newest_generation
from penstock.ledger.load import begin_attempt, create_load, finish_staging, pass_checks, read_load
from penstock.ledger.pipeline import register_pipeline
from penstock.load.plan import plan_load, preview_plan
from penstock.load.publish import publish_in
from penstock.maintenance.run import maintain
from penstock.model.ranges import Range
from penstock.status.pipelines import read_status
from penstock.target.postgres.attempt import attempt_table
from penstock.target.registry import find_store

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from bench.services import Services
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

FOLDER = PROJECT / ".penstock" / "bench-many-loads"
TOPIC, PARTITIONS, ROWS = "many_loads", 2, 20
# A power of ten gives one leaf; one load less gives the largest possible number of leaves.
SIZES = (10, 999, 1_000, 9_999, 10_000)
# More would take long, and more locks than a server has by default.
UNMERGED_SIZES = (10, 1_000, 3_000)
EVERY = 100
START = "2026-01-01T00:00:00Z"
console = Console(stderr=True)

PIPELINE = Pipeline.model_validate(
    {
        "name": TOPIC,
        "topic": TOPIC,
        "value": "json",
        "columns": {"id": {"type": "bigint", "path": "$.id"}, "note": {"type": "text", "path": "$.note"}},
        "target": f"analytics.{TOPIC}",
        "indexes": [["_timestamp"]],
        "max_records_per_partition": ROWS,
    }
)


@dataclass(slots=True)
class Bench:
    """A pipeline in a database of its own, and the times of its last publishes."""

    db: str
    kafka: dict[str, str]
    done: int = 0
    publishes: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.many_loads", description=__doc__)
    parser.add_argument("--loads", type=int, nargs="+", default=list(SIZES), help="measure after so many loads")
    parser.add_argument(
        "--unmerged", type=int, nargs="+", default=list(UNMERGED_SIZES), help="the same, where leaves are never merged"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the services keep their data")
    given = parser.parse_args(arguments)
    with running_services(given.folder) as services:
        fill_topic(services.broker.bootstrap, max(*given.loads, *given.unmerged) + 1)
        rows = [*measure_all(services, given.loads, merge=True), *measure_all(services, given.unmerged, merge=False)]
    machine = describe_machine()
    print(f"{machine['day']}, {machine['machine']}, {machine['system']}; {ROWS} rows a partition and load, "
          f"{PARTITIONS} partitions; milliseconds, median of five.\n")  # fmt: skip
    print_table(rows)
    return 0


def fill_topic(bootstrap: str, loads: int) -> None:
    """Produce the records of so many loads."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        try:
            created.result(30)
        except KafkaException as error:  # it is there from an earlier run
            console.print(str(error))
    log = read_log({"bootstrap.servers": bootstrap}, TOPIC, "read_committed")
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000, "linger.ms": 50})
    for partition in range(PARTITIONS):
        for _ in range(log.partitions[partition].end, loads * ROWS):
            producer.produce(TOPIC, b"{}", partition=partition)
            producer.poll(0)
    producer.flush(60)


def measure_all(services: Services, sizes: Sequence[int], *, merge: bool) -> Iterator[list[str]]:
    """A row of figures for each size; one that cannot be reached says why."""
    bench = Bench(services.make_database(), {"bootstrap.servers": services.broker.bootstrap})
    migrate(bench.db)
    plan_load(bench.db, bench.kafka, PIPELINE, "first")
    with open_ledger(bench.db) as connection:
        connection.execute("update penstock.load set state = 'discarded'")
    spent = 0.0
    for size in sorted(sizes):
        while bench.done < size:
            load_some(bench, min(EVERY, size - bench.done))
            if merge:
                with watching(bench):
                    spent += clock(lambda: maintain(bench.db, PIPELINE, lambda _: None))
        yield ["yes" if merge else "no", f"{size:,}", *measure(bench)]
        if merge:
            half, longest = (1000 * find(bench.waits) for find in (statistics.median, max))
            console.print(
                f"{size:,} loads: maintenance took {spent:.0f} s in all; of {len(bench.waits):,} queries meanwhile "
                f"half took up to {half:.0f} ms, the longest {longest:.0f} ms"
            )


def load_some(bench: Bench, count: int) -> None:
    """Stage and publish some loads, one after the other."""
    with closing(connect(bench.db)) as staging, closing(connect(bench.db)) as publishing:
        staging.execute("set synchronous_commit = off")
        for _ in range(count):
            load_id = stage(staging, bench.done)
            bench.publishes.append(clock(partial(publish, publishing, load_id)))
            bench.done += 1
    if bench.done % 1000 == 0:
        console.print(
            f"{bench.done:,} loads, the last publishes {1000 * statistics.median(bench.publishes[-50:]):.1f} ms"
        )


def publish(connection: Connection, load_id: int) -> None:
    """The transaction of a publish, with its COMMIT."""
    publish_in(connection, load_id)
    connection.commit()


def stage(
    connection: Connection, number: int, pipeline: Pipeline = PIPELINE, partitions: int = PARTITIONS, rows: int = ROWS
) -> int:
    """A load that is staged and validated, with the same result as by tasks and checks."""
    pipeline_id = register_pipeline(connection, pipeline)
    generation = read_newest_generation(connection, pipeline_id)
    assert generation
    ranges = [Range(partition, number * rows, (number + 1) * rows) for partition in range(partitions)]
    load = create_load(connection, pipeline_id, generation.generation_id, pipeline, f"hour {number}", ranges)
    store = find_store(pipeline)
    if number == 0:
        store.prepare(connection)
        store.prepare_indexes(connection)
    attempt = begin_attempt(connection, load)
    store.open_attempt(connection, load, attempt)
    _fill(connection, load, attempt, number, rows)
    store.seal(connection, load, attempt)
    finish_staging(connection, load, attempt)
    pass_checks(connection, read_load(connection, load.load_id))
    connection.commit()
    return load.load_id


def _fill(connection: Connection, load: Load, attempt: int, number: int, rows: int) -> None:
    """Each load holds the records of an hour."""
    partitions = len(load.ranges)
    connection.execute(
        sql.SQL(
            "insert into {} (id, note, _load_id, _partition, _offset, _timestamp)"
            " select o, 'note of ' || o, %s, p, o,"
            " %s::timestamptz + make_interval(hours => %s, secs => 3600.0 * (o - %s) / %s)"
            " from generate_series(%s::bigint, %s) o, generate_series(0, %s) p"
        ).format(attempt_table(load.load_id, attempt)),
        [load.load_id, START, number, number * rows, rows, number * rows, (number + 1) * rows - 1, partitions - 1],
    )
    connection.execute(
        "insert into penstock.stage_task select load_id, %s, partition, partition, from_offset, until_offset,"
        " until_offset - from_offset, 0, 0 from penstock.load_range where load_id = %s",
        [attempt, load.load_id],
    )


def measure(bench: Bench) -> list[str]:
    """The leaves, and the duration of each action. The session of the queries has run them before."""
    with psycopg.connect(bench.db, autocommit=True, prepare_threshold=None) as connection:
        leaves = ask(connection, f"select count(*) from pg_inherits where inhparent = '{PIPELINE.target}'::regclass")
        return [
            f"{leaves:,}",
            _middle(lambda: _plan(bench)),
            f"{1000 * statistics.median(bench.publishes[-5:]):.1f}",
            _middle(lambda: _status(bench)),
            _middle(lambda: query_by_time(connection, bench)),
            _middle(lambda: query_all(connection, bench)),
            f"{count_locks(connection):,}",
        ]


def _plan(bench: Bench) -> None:
    assert preview_plan(bench.db, bench.kafka, PIPELINE, f"plan of {time.monotonic()}").load


def _status(bench: Bench) -> None:
    with open_ledger(bench.db) as connection:
        [status] = read_status(connection, bench.kafka, [PIPELINE])
    assert status.health.state == "behind", status


def query_by_time(connection: Connection, bench: Bench) -> None:
    """The records of an hour in the middle."""
    hour = bench.done // 2
    found = ask(
        connection,
        f"select count(*) from {PIPELINE.target} where _timestamp >= %s::timestamptz + make_interval(hours => %s)"
        " and _timestamp < %s::timestamptz + make_interval(hours => %s)",
        *(START, hour, START, hour + 1),
    )
    assert found == ROWS * PARTITIONS, found


def query_all(connection: Connection, bench: Bench) -> None:
    """Every record."""
    found = ask(connection, f"select count(*) from {PIPELINE.target}")
    assert found == bench.done * ROWS * PARTITIONS, found


def count_locks(connection: Connection) -> int:
    """The number of locks that a query of every record takes."""
    with connection.transaction():
        ask(connection, f"select count(*) from {PIPELINE.target}")
        return ask(connection, "select count(*) from pg_locks where pid = pg_backend_pid()")


def ask(connection: Connection, query: str, *values: object) -> int:
    """The one number that a query answers."""
    row = connection.execute(query.encode(), values or None).fetchone()
    return int(row[0]) if row else 0


def watching(bench: Bench) -> AbstractContextManager[None]:
    """Query a record again and again while leaves are merged, and keep the duration of each query."""

    def watch(ended: threading.Event) -> None:
        with psycopg.connect(bench.db, autocommit=True, prepare_threshold=None) as connection:
            while not ended.wait(0.005):
                bench.waits.append(clock(lambda: query_by_time(connection, bench)))

    return running_beside(watch)


def clock(do: Callable[[], Any]) -> float:
    """The duration in seconds."""
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _middle(do: Callable[[], Any], times: int = 5) -> str:
    do()
    return f"{1000 * statistics.median(clock(do) for _ in range(times)):.1f}"


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Markdown, to be put into docs/explanation/many-loads.md."""
    head = [
        "merged",
        "loads",
        "leaves",
        "plan",
        "publish",
        "status",
        "an hour by time",
        "count of all",
        "locks of that",
    ]
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    sys.exit(main())
