"""A ledger after a year of hourly loads of 100 partitions: `python -m bench.year`.

The ledger and the target are filled by SQL as loads leave them: each load has a range, a chunk and a few rows in each
partition, and with `--transactions` a marker, whose hole is named. Plan, publish, status and verify then run as they
do, against a real broker.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from bench import many_loads
from bench.contestants import PROJECT
from bench.machine import describe_machine
from bench.services import running_services
from penstock.declaration.pipeline import Pipeline
from penstock.kafka.admin import read_log
from penstock.ledger.connection import connect, migrate, open_ledger
from penstock.ledger.generation import open_generation
from penstock.ledger.load import keep_declaration
from penstock.ledger.pipeline import register_pipeline
from penstock.load.plan import preview_plan
from penstock.maintenance.run import maintain
from penstock.settings import Settings
from penstock.status.pipelines import read_status
from penstock.target.registry import find_store
from penstock.verify.rotation import Rotation
from penstock.verify.run import verify_pipeline
from penstock_stack.processes import await_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.services import Services
    from penstock.ledger.connection import Connection

FOLDER = PROJECT / ".penstock" / "bench-year"
ROWS, CHECKS, KEPT_LOADS = 2, 20, 168
console = Console(stderr=True)
TABLES = ("load", "load_range", "coverage", "stage_task", "check_result", "naming", "verification", "event")
FILL = (
    """insert into penstock.load (pipeline_id, generation_id, kind, run_id, declaration_id, state, attempt, planned_at,
                                  staging_at, staged_at, validated_at, published_at, ended_at, rows, quarantined, holes)
       select %(pipeline_id)s, %(generation_id)s, 'live', 'run ' || n, %(declaration_id)s, 'published', 1, t.at,
              t.at, t.at + interval '20 s', t.at + interval '22 s', t.at + interval '23 s', t.at + interval '23 s',
              %(rows)s * %(partitions)s, 0, %(holes)s * %(partitions)s
       from generate_series(1, %(loads)s) as n
       cross join lateral (select now() - (%(loads)s - n) * interval '1 hour' as at) t order by n""",
    """insert into penstock.load_range (load_id, partition, from_offset, until_offset, rows, quarantined, holes,
                                        first_at, last_at)
       select l.load_id, p, (l.load_id - 1) * %(offsets)s, l.load_id * %(offsets)s, %(rows)s, 0, %(holes)s,
              l.planned_at - interval '1 hour', l.planned_at
       from penstock.load l cross join generate_series(0, %(partitions)s - 1) as p order by 1, 2""",
    """insert into penstock.stage_task (load_id, attempt, task, partition, from_offset, until_offset, rows, quarantined,
                                        holes, staged_at, log_hash)
       select r.load_id, 1, r.partition, r.partition, r.from_offset, r.until_offset, r.rows, 0, r.holes, l.staged_at, 1
       from penstock.load_range r join penstock.load l using (load_id) order by 1, 3""",
    """insert into penstock.position (generation_id, partition, origin, position, load_id, moved_at)
       select %(generation_id)s, p, 0, %(offsets)s::bigint * %(loads)s, %(loads)s, now() - interval '1 hour'
       from generate_series(0, %(partitions)s - 1) as p""",
    """insert into penstock.coverage (pipeline_id, generation_id, partition, offsets, load_id, rows, quarantined, holes,
                                      first_at, last_at)
       select %(pipeline_id)s, %(generation_id)s, r.partition, int8range(r.from_offset, r.until_offset), r.load_id,
              r.rows, 0, r.holes, r.first_at, r.last_at
       from penstock.load_range r order by r.load_id, r.partition""",
    """insert into penstock.naming (load_id, partition, offsets, aborted, marker, compacted, unexplained, gone)
       select r.load_id, r.partition, int8range(r.from_offset, r.until_offset), 0, r.holes, 0, 0, 0
       from penstock.load_range r where r.holes > 0""",
    """insert into penstock.check_result (load_id, attempt, ordinal, kind, expectation, "column", severity, success,
                                          observed, figure, check_id, checked_at)
       select l.load_id, 1, c, 'declared', 'expect_' || c, 'id', 'error', true, '{"unexpected_count": 0}', c,
              'check ' || c, l.validated_at
       from penstock.load l cross join generate_series(1, %(checks)s) as c""",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill ledgers, measure, and print tables in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.year", description=__doc__)
    parser.add_argument("--loads", type=int, nargs="+", default=[730, 8_760], help="how many loads; several")
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--transactions", action="store_true", help="each range ends with the marker of a transaction")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the services keep their data")
    given = parser.parse_args(arguments)
    with running_services(given.folder) as services:
        columns = [measure(services, given.partitions, loads, int(given.transactions)) for loads in given.loads]
    print(f"{given.partitions} partitions, {describe_machine()}\n")
    print(f"| | {' | '.join(f'{loads:,} loads' for loads in given.loads)} |\n|{'---|' * (len(columns) + 1)}")
    for name in columns[0]:
        print(f"| {name} | {' | '.join(column[name] for column in columns)} |")
    return 0


def measure(services: Services, partitions: int, loads: int, holes: int) -> dict[str, str]:
    """Fill a ledger, and measure what runs each hour and each day. Each range has so many named holes."""
    db, topic = services.make_database(), f"year_{partitions}_{loads}_{holes}"
    kafka = {"bootstrap.servers": services.broker.bootstrap}
    make_topic(kafka, topic, partitions, loads, ROWS + holes)
    migrate(db)
    pipeline = declare(topic)
    fill(db, kafka, pipeline, partitions, loads, holes)
    settings = Settings(db=db, kafka=kafka, pipelines=Path(), spark_master="local[1]")
    figures = {"merge": clock(lambda: maintain(db, pipeline, lambda _: None))}
    with psycopg.connect(db, autocommit=True) as connection:
        connection.execute("vacuum analyze")
    figures |= {
        "plan": middle(lambda: preview_plan(db, kafka, pipeline, f"plan of {time.monotonic()}")),
        "status": middle(lambda: read(db, lambda ledger: read_status(ledger, kafka, [pipeline]))),
        "verify, all": clock(lambda: verify(settings, pipeline, None)),
        "verify, new": clock(lambda: verify_new(settings, pipeline, 24)),
        "maintain": clock(lambda: maintain(db, pipeline, lambda _: None)),
        "publish": publish_more(db, pipeline, partitions, loads, ROWS + holes),
    }
    return figures | sizes(db)


def publish_more(db: str, pipeline: Pipeline, partitions: int, loads: int, offsets: int) -> str:
    """How long the transaction of a publish takes, the median of five more loads."""
    seconds = []
    with closing(connect(db)) as staging, closing(connect(db)) as publishing:
        for number in range(loads, loads + 5):
            load_id = many_loads.stage(staging, number, pipeline, partitions, offsets)
            seconds.append(many_loads.clock(partial(many_loads.publish, publishing, load_id)))
    return f"{1000 * statistics.median(seconds):,.0f} ms"


def verify(settings: Settings, pipeline: Pipeline, rotation: Rotation | None) -> None:
    """Verify without the records of the log, which are not those of the rows."""
    verified = verify_pipeline(settings, pipeline, "bench", 0.0, lambda *_: None, rotation=rotation)
    assert verified
    assert not verified.faults, verified.faults[:3]
    console.print(verified.summary)


def verify_new(settings: Settings, pipeline: Pipeline, loads: int) -> None:
    """Verify as on the next day: some loads are new, and the others have been counted."""
    with psycopg.connect(settings.db) as connection:
        connection.execute(
            "update penstock.load set counted_at = null where load_id > (select max(load_id) from penstock.load) - %s",
            [loads],
        )
    verify(settings, pipeline, Rotation(30, at_least=0))


def make_topic(kafka: Mapping[str, str], topic: str, partitions: int, loads: int, offsets: int) -> None:
    """Make a topic whose log ends where the loads end, with so many offsets of each."""
    end = loads * offsets
    admin = AdminClient(dict(kafka))
    if topic not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
    await_condition(
        lambda: len(read_log(dict(kafka), topic, "read_committed").partitions) == partitions, 120, f"{topic} is there"
    )
    produce(kafka, topic, partitions, end + 1)
    # Kafka keeps the records of a week.
    kept = [TopicPartition(topic, partition, max(0, end - KEPT_LOADS * offsets)) for partition in range(partitions)]
    for deleted in admin.delete_records(kept).values():
        deleted.result(60)


def produce(kafka: Mapping[str, str], topic: str, partitions: int, end: int) -> None:
    """Fill up each partition to an end."""
    log = read_log(dict(kafka), topic, "read_committed")
    producer = Producer({**kafka, "queue.buffering.max.messages": 1_000_000, "linger.ms": 100})
    for partition in range(partitions):
        for _ in range(log.partitions[partition].end, end):
            producer.produce(topic, b"{}", partition=partition)
            producer.poll(0)
    producer.flush(120)


def declare(topic: str) -> Pipeline:
    """A pipeline of two columns."""
    columns = {"id": {"type": "bigint"}, "note": {"type": "text"}}
    declared = {"name": topic, "topic": topic, "value": "json", "columns": columns, "target": f"analytics.{topic}"}
    return Pipeline.model_validate(declared)


def fill(db: str, kafka: Mapping[str, str], pipeline: Pipeline, partitions: int, loads: int, holes: int) -> None:
    """Fill the ledger and the target."""
    identity = read_log(dict(kafka), pipeline.topic, "read_committed").identity
    with connect(db) as connection:
        pipeline_id = register_pipeline(connection, pipeline)
        store = find_store(pipeline)
        store.prepare(connection)
        store.prepare_indexes(connection)
        values: dict[str, Any] = {
            "pipeline_id": pipeline_id,
            "generation_id": open_generation(connection, pipeline_id, identity, 1),
            "declaration_id": keep_declaration(connection, pipeline),
            "partitions": partitions,
            "loads": loads,
            "rows": ROWS,
            "holes": holes,
            "offsets": ROWS + holes,
            "checks": CHECKS,
        }
        for statement in FILL:
            began = time.perf_counter()
            connection.execute(statement.encode(), values)
            console.print(f"{time.perf_counter() - began:6.1f} s  {statement[:60]}", markup=False)
    with connect(db) as connection:
        fill_target(connection, pipeline, loads)


def fill_target(connection: Connection, pipeline: Pipeline, loads: int) -> None:
    """Make the leaves that maintenance leaves after so many loads: thousands, hundreds, tens and ones."""
    first, size = 1, 10 ** (len(str(loads)) - 1)
    schema, table = str(pipeline.target).split(".")
    while first <= loads:
        if first + size - 1 > loads:
            size //= 10
            continue
        leaf = f"{schema}.{table}_{first}"
        connection.execute(
            f"create table {leaf} partition of {pipeline.target} for values from ({first}) to ({first + size})".encode()
        )
        connection.execute(
            f"insert into {pipeline.target} (id, note, _load_id, _partition, _offset, _timestamp)"
            " select o, 'note of ' || o, r.load_id, r.partition, o, r.first_at from penstock.load_range r"
            " cross join lateral generate_series(r.from_offset, r.until_offset - 1 - r.holes) o"
            f" where r.load_id >= {first} and r.load_id < {first + size}".encode()
        )
        first += size


def read(db: str, what: Callable[[Connection], object]) -> None:
    """Read the ledger in a session of its own."""
    with closing(open_ledger(db)) as connection:
        what(connection)


def sizes(db: str) -> dict[str, str]:
    """The sizes of the tables of the ledger that have more than a few rows, with their indexes."""
    with psycopg.connect(db) as connection:
        found = connection.execute(
            "select c.relname, pg_total_relation_size(c.oid) from pg_class c"
            " where c.relnamespace = 'penstock'::regnamespace and c.relname = any(%s)",
            [list(TABLES)],
        ).fetchall()
    by_name: dict[str, int] = dict(found)
    listed = {f"size of {name}": f"{by_name[name] / 1e6:,.1f} MB" for name in TABLES if name in by_name}
    return listed | {"size of the ledger": f"{sum(by_name.values()) / 1e6:,.1f} MB"}


def clock(do: Callable[[], object]) -> str:
    """How long something takes."""
    return f"{many_loads.clock(do):.2f} s"


def middle(do: Callable[[], object], times: int = 5) -> str:
    """How long something takes, the median of several times."""
    do()
    return f"{1000 * statistics.median(many_loads.clock(do) for _ in range(times)):,.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
