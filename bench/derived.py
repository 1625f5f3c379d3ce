"""The cost of results in the publish transaction: `python -m bench.derived`.

Each set of results gets a fresh database. The rows are generated in it; a second load of the same size then meets the
keys of the first one. With `--grown` the table of an upsert has that many keys before loads change some of them.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bench.machine import describe_machine
from bench.polling import Waits, polling
from bench.quality import FOLDER, stage
from bench.records import describe_pipeline
from bench.services import running_services
from penstock.declaration.pipeline import Pipeline
from penstock.ledger.connection import connect, migrate
from penstock.load.publish import publish_in
from penstock.load.results.tables import prepare_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from bench.services import Services

LOADS_OF_GROWN = (10_000, 100_000, 1_000_000)
TOTALS = """
insert into result as r (country, orders, amount)
select country, sum(sign), sum(sign * amount)
from (select country, amount, 1 as sign from added union all select country, amount, -1 from removed) changed
group by country
on conflict (country) do update set orders = r.orders + excluded.orders, amount = r.amount + excluded.amount"""
UPSERT = {"table": "public.newest", "mode": "upsert", "key": ["customer"]}
SUMS = {
    "table": "public.sums",
    "mode": "sql",
    "key": ["country"],
    "columns": {"country": "text", "orders": "bigint", "amount": "numeric(38,2)"},
    "statements": TOTALS,
}
SETS: dict[str, list[dict[str, Any]]] = {"none": [], "upsert": [UPSERT], "totals": [SUMS]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.derived", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 4_000_000], help="rows of a load; several")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the services keep their data")
    parser.add_argument("--grown", type=int, nargs="*", default=[], help="keys of a grown table; several")
    given = parser.parse_args(arguments)
    machine = describe_machine()
    print(f"{machine['day']}, {machine['machine']}; publish of a load over a million keys, seconds.\n")
    print("| rows | results | first load | second load |\n|---|---|---|---|")
    with running_services(given.folder) as services:
        for rows in given.rows:
            for name, results in SETS.items():
                db = services.make_database()
                migrate(db)
                pipeline = Pipeline.model_validate(describe_pipeline("bench", rows) | {"results": results})
                times = " | ".join(f"{publish(db, pipeline, first, rows):.2f}" for first in (0, rows))
                print(f"| {rows:,} | {name} | {times} |", flush=True)
        if given.grown:
            print("\n| keys in the table | GB | rows of the load | seconds | HOT updates | longest wait of a reader |")
            print("|---|---|---|---|---|---|")
        for keys in given.grown:
            for line in measure_grown(services, keys):
                print(line, flush=True)


def measure_grown(services: Services, keys: int) -> Iterator[str]:
    """Publish loads of rising size that change keys all over a grown table, while a reader polls it."""
    db = services.make_database()
    migrate(db)
    pipeline = Pipeline.model_validate(describe_pipeline("bench", LOADS_OF_GROWN[-1]) | {"results": [UPSERT]})
    publish(db, pipeline, 0, 4)
    fill_table(db, keys)
    first = 4
    for rows in LOADS_OF_GROWN:
        services.checkpoint()
        waits = Waits()
        before = read_updates(db)
        seconds = publish(db, pipeline, first, rows, keys, partial(polling, waits, "public.newest", "customer"))
        updates, hot, gigabytes = (new - old for new, old in zip(read_updates(db), (*before[:2], 0), strict=True))
        yield f"| {keys:,} | {gigabytes:.1f} | {rows:,} | {seconds:.1f} | {100 * hot / updates:.0f} % | {waits} |"
        first += rows


def fill_table(db: str, keys: int) -> None:
    """Fill the table of an upsert, in five passes: so rows of neighbouring keys are on different pages."""
    with psycopg.connect(db, autocommit=True) as connection:
        for rest in range(5):
            connection.execute(
                "insert into public.newest select k, -k, 'DE', 9.99, 'EUR', now(), 'note', 1, k %% 4, 0, now()"
                " from generate_series(%s::bigint, %s, 5) k on conflict do nothing",
                [rest, keys + 3],
            )
        connection.execute("vacuum analyze public.newest")


def read_updates(db: str) -> tuple[float, float, float]:
    """The updates of the table so far, those of them that left the indexes alone, and its size in GB."""
    with psycopg.connect(db) as connection:
        row = connection.execute(
            "select n_tup_upd, n_tup_hot_upd, pg_total_relation_size(relid) / 1e9 from pg_stat_user_tables"
            " where relname = 'newest'"
        ).fetchone()
    assert row is not None
    return float(row[0]), float(row[1]), float(row[2])


def publish(
    db: str,
    pipeline: Pipeline,
    first: int,
    rows: int,
    keys: int = 1_000_003,
    beside: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> float:
    """Stage a load, and time its publish transaction."""
    with connect(db) as connection:
        load = stage(connection, pipeline, first, rows, keys)
        prepare_results(connection, pipeline)
        connection.execute("update penstock.load set state = 'validated' where load_id = %s", [load.load_id])
        connection.commit()
        with beside(db):
            began = time.monotonic()
            publish_in(connection, load.load_id)
            connection.commit()
            return time.monotonic() - began


if __name__ == "__main__":
    main()
