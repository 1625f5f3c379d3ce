"""The time that each panel of the page takes at the server: `python -m bench.page`.

The ledger is filled by SQL as loads of all partitions leave it: a pipeline of 200 partitions with 10,000 loads, beside
499 small ones. Each panel is then read as a request reads it: a connection of its own, the queries, and the document
as JSON.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from rich.console import Console

from bench.contestants import PROJECT
from bench.machine import describe_machine
from bench.records import COLUMNS
from penstock.airflow.page.backfill import describe_preview
from penstock.airflow.page.coverage import describe_coverage
from penstock.airflow.page.loads import describe_load, describe_loads
from penstock.airflow.page.overview import describe_pipeline, describe_pipelines
from penstock.airflow.page.panels import (
    describe_backfills,
    describe_events,
    describe_incidents,
    describe_quality,
    describe_quarantine,
    describe_records,
    describe_results,
)
from penstock.declaration.pipeline import Pipeline
from penstock.ledger.connection import connect, migrate, open_for_reading
from penstock.ledger.generation import open_generation
from penstock.ledger.load import keep_declaration
from penstock.ledger.pipeline import register_pipeline
from penstock.ledger.sample import count_gaps, find_uncounted
from penstock.model.log import Identity
from penstock_stack import ports
from penstock_stack.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.ledger.connection import Connection

FOLDER = PROJECT / ".penstock" / "bench-page"
NAME = "wide"
OFFSETS, QUARANTINED, CHECKS = 1_000, 10_000, 20
RANGE = "3:5000000-6000000"
TIME = (datetime.now(UTC) - timedelta(days=3)).isoformat()
console = Console(stderr=True)

DECLARED = {"name": NAME, "topic": NAME, "value": "json", "target": f"analytics.{NAME}", "schedule": "@hourly"}
PIPELINE = Pipeline.model_validate(DECLARED | {"columns": COLUMNS})
OTHERS = {
    name: Pipeline.model_validate(DECLARED | {"columns": COLUMNS, "name": name, "target": f"analytics.{name}"})
    for name in (f"narrow_{number}" for number in range(499))
}
FILL = (
    """insert into penstock.load (pipeline_id, generation_id, kind, run_id, declaration_id, state, attempt, planned_at,
                                  staging_at, staged_at, validated_at, published_at, ended_at, rows, quarantined, holes)
       select %(pipeline_id)s, %(generation_id)s, 'live', 'run ' || n, %(declaration_id)s, 'published', 1, t.at,
              t.at, t.at + interval '20 s', t.at + interval '22 s', t.at + interval '23 s', t.at + interval '23 s',
              %(offsets)s::bigint * %(partitions)s, 0, 0
       from generate_series(1, %(loads)s) as n
       cross join lateral (select now() - (%(loads)s - n) * interval '1 hour' as at) t order by n""",
    """insert into penstock.load_range (load_id, partition, from_offset, until_offset, rows, quarantined, holes,
                                        first_at, last_at)
       select l.load_id, p, (l.load_id - 1) * %(offsets)s, l.load_id * %(offsets)s, %(offsets)s, 0, 0,
              l.planned_at - interval '1 hour', l.planned_at
       from penstock.load l cross join generate_series(0, %(partitions)s - 1) as p order by 1, 2""",
    """insert into penstock.position (generation_id, partition, origin, position, load_id, moved_at)
       select %(generation_id)s, p, 0, %(offsets)s::bigint * %(loads)s, %(loads)s, now() - interval '1 hour'
       from generate_series(0, %(partitions)s - 1) as p""",
    # Some ranges are gaps, and some were published by a replay.
    """insert into penstock.coverage (pipeline_id, generation_id, partition, offsets, load_id, rows, quarantined, holes)
       select %(pipeline_id)s, %(generation_id)s, r.partition, int8range(r.from_offset, r.until_offset), r.load_id,
              r.rows - r.load_id %% 2, 0, r.load_id %% 2
       from penstock.load_range r where (r.load_id * 7 + r.partition) %% 5000 <> 0 order by r.load_id, r.partition""",
    """insert into penstock.sample (pipeline, taken_at, answered_at, cluster_id, topic_id, retention, retention_at)
       values (%(name)s, now(), now(), 'c', 't',
               '{"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}', now())""",
    """insert into penstock.partition_sample (pipeline, partition, log_start, log_end, last_stable_offset,
                                              high_watermark, oldest_offset, oldest_at)
       select %(name)s, p, %(offsets)s::bigint * %(loads)s / 2, %(offsets)s::bigint * %(loads)s + p,
              %(offsets)s::bigint * %(loads)s + p, %(offsets)s::bigint * %(loads)s + p,
              %(offsets)s::bigint * %(loads)s, now() - interval '10 minutes'
       from generate_series(0, %(partitions)s - 1) as p""",
    """insert into penstock.sample_history (pipeline, at, lag, oldest_seconds)
       select %(name)s, now() - n * interval '1 minute', n, n from generate_series(0, 1440) as n""",
    """insert into penstock.quarantine (load_id, attempt, partition, "offset", reason, detail, rule, key, value)
       select l, 1, p, (l - 1) * %(offsets)s + p, case p %% 2 when 0 then 'rule' else 'bad_json' end, 'not JSON',
              case p %% 2 when 0 then 'positive' end, 'key', 'value'
       from (select 1 + n %% %(loads)s as l, n %% %(partitions)s as p
             from generate_series(0, %(quarantined)s - 1) as n) q on conflict do nothing""",
    """insert into penstock.check_result (load_id, attempt, ordinal, kind, expectation, "column", severity, success,
                                          observed, figure, check_id)
       select l, 1, c, 'declared', 'expect_' || c, 'id', 'error', true, '{"unexpected_count": 0}', l %% 7, 'check ' || c
       from generate_series(1, %(loads)s) as l cross join generate_series(1, %(checks)s) as c""",
    """insert into penstock.event (pipeline_id, load_id, actor, what, why, at)
       select %(pipeline_id)s, l, 'ann', 'approved', 'a reason', now() from generate_series(1, %(loads)s) as l""",
    """insert into penstock.incident (pipeline, kind, key, severity, message, next_step, ended_at, ended_by, ended_why)
       select %(name)s, 'overdue_load', 'run ' || n, 'error', 'it failed', 'look', now(), 'penstock', 'over'
       from generate_series(1, %(loads)s) as n""",
    # A result that is being rebuilt, and half of its loads are read.
    """insert into penstock.result (pipeline_id, table_name, definition, state, current_since, load_id, built_until,
                                    build_to)
       select %(pipeline_id)s, 'analytics.newest', '{"mode": "upsert", "key": ["id"]}', s.state,
              case s.state when 'current' then now() end, %(loads)s, s.until, s.until * 2
       from (values ('current', null::bigint), ('building', %(loads)s / 2)) as s (state, until)""",
    "update penstock.sample set counted = null",
)
# The other pipelines of the list: ten loads of four partitions each.
FILL_OTHERS = (
    """insert into penstock.load (pipeline_id, generation_id, kind, run_id, declaration_id, state, attempt, planned_at,
                                  published_at, ended_at, rows, quarantined, holes)
       select g.pipeline_id, g.generation_id, 'live', 'run ' || n, %(declaration_id)s, 'published', 1, now(), now(),
              now(), 1000, 1, 0
       from penstock.generation g cross join generate_series(1, 10) as n where g.pipeline_id <> %(pipeline_id)s""",
    """insert into penstock.position (generation_id, partition, origin, position, load_id, moved_at)
       select l.generation_id, p, 0, 1000, max(l.load_id), now()
       from penstock.load l cross join generate_series(0, 3) as p
       where l.pipeline_id <> %(pipeline_id)s group by 1, 2""",
    """insert into penstock.sample (pipeline, taken_at, answered_at, cluster_id, topic_id)
       select name, now(), now(), 'c', 't' from penstock.pipeline where pipeline_id <> %(pipeline_id)s""",
    """insert into penstock.partition_sample (pipeline, partition, log_start, log_end, last_stable_offset,
                                              high_watermark)
       select name, p, 0, 1100, 1100, 1100
       from penstock.pipeline cross join generate_series(0, 3) as p where pipeline_id <> %(pipeline_id)s""",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill a ledger, measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--loads", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    wanted = parser.parse_args(arguments)
    wanted.folder.mkdir(parents=True, exist_ok=True)
    postgres = Postgres(wanted.folder / "postgres", *ports.choose(1))
    try:
        postgres.start()
        postgres.drop_database("bench")
        uri = postgres.create_database("bench")
        migrate(uri)
        pipeline_id = fill(uri, wanted.partitions, wanted.loads)
        print(f"{wanted.partitions} partitions x {wanted.loads:,} loads, {describe_machine()}\n")
        print("| panel | median | slowest | bytes |\n|---|---|---|---|")
        for name, read in panels(pipeline_id, wanted.loads).items():
            print(f"| {name} | {measure(uri, read, wanted.times)} |", flush=True)
    finally:
        postgres.stop()
    return 0


def fill(uri: str, partitions: int, loads: int) -> int:
    """Fill the ledger; the number of the pipeline."""
    with connect(uri) as connection:
        pipeline_id = register_pipeline(connection, PIPELINE)
        values: dict[str, Any] = {
            "pipeline_id": pipeline_id,
            "generation_id": open_generation(connection, pipeline_id, Identity("c", "t"), 1),
            "declaration_id": keep_declaration(connection, PIPELINE),
            "name": NAME,
            "partitions": partitions,
            "loads": loads,
            "offsets": OFFSETS,
            "quarantined": QUARANTINED,
            "checks": CHECKS,
        }
        for statement in FILL:
            began = time.perf_counter()
            connection.execute(statement.encode(), values)
            console.print(f"{time.perf_counter() - began:6.1f} s  {statement[:60]}", markup=False)
        for other in OTHERS.values():
            open_generation(connection, register_pipeline(connection, other), Identity("c", "t"), 1)
        for statement in FILL_OTHERS:
            connection.execute(statement.encode(), values)
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("vacuum analyze")
        began = time.perf_counter()
        [uncounted] = find_uncounted(connection, [NAME])
        count_gaps(connection, uncounted)
        console.print(f"{time.perf_counter() - began:6.1f} s  the sampler counts the gaps, once after each load")
    return pipeline_id


def panels(pipeline_id: int, loads: int) -> Mapping[str, Callable[[Connection], Any]]:
    """The panels by name."""
    return {
        "list of 500 pipelines": lambda ledger: describe_pipelines(ledger, OTHERS | {NAME: PIPELINE}),
        "head and tiles": lambda ledger: describe_pipeline(ledger, NAME, PIPELINE),
        "coverage by offset": lambda ledger: describe_coverage(ledger, NAME, pipeline_id, "offset", 1),
        "coverage by time": lambda ledger: describe_coverage(ledger, NAME, pipeline_id, "time", 4),
        "loads": lambda ledger: describe_loads(ledger, NAME, pipeline_id, 1, None, None),
        "loads, last page": lambda ledger: describe_loads(ledger, NAME, pipeline_id, loads // 25, None, None),
        "one load": lambda ledger: describe_load(ledger, NAME, pipeline_id, loads // 2),
        "results": lambda ledger: describe_results(ledger, NAME, PIPELINE),
        "quality, 30 loads": lambda ledger: describe_quality(ledger, NAME, 30, None),
        "quarantine": lambda ledger: describe_quarantine(ledger, NAME, pipeline_id),
        "quarantined records": lambda ledger: describe_records(ledger, NAME, pipeline_id, None, None, 1, b"key"),
        "preview of all gaps": lambda ledger: describe_preview(ledger, PIPELINE, gaps=True),
        "preview of a replay": lambda ledger: describe_preview(ledger, PIPELINE, ranges=RANGE, replace=True),
        "preview by time": lambda ledger: describe_preview(ledger, PIPELINE, from_time=TIME, replace=True),
        "backfills": lambda ledger: describe_backfills(ledger, NAME, pipeline_id),
        "incidents": lambda ledger: describe_incidents(ledger, NAME),
        "events": lambda ledger: describe_events(ledger, NAME, pipeline_id, 1),
    }


def measure(uri: str, read: Callable[[Connection], Any], times: int) -> str:
    """Read a panel some times; the median and the greatest time, and the size of the answer."""
    seconds, size = [], 0
    for _ in range(times):
        began = time.perf_counter()
        with open_for_reading(uri) as connection:
            size = len(read(connection).model_dump_json(by_alias=True))
        seconds.append(time.perf_counter() - began)
    return f"{1000 * statistics.median(seconds):,.0f} ms | {1000 * max(seconds):,.0f} ms | {size:,}"


if __name__ == "__main__":
    sys.exit(main())
