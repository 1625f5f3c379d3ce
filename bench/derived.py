"""The cost of results in the publish transaction: `python -m bench.derived`.

Each set of results gets a fresh database. The rows are generated in it; a second load of the same size then meets the
keys of the first one.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.machine import describe_machine
from bench.quality import FOLDER, stage
from bench.records import describe_pipeline
from bench.services import running_services
from penstock.declaration.pipeline import Pipeline
from penstock.ledger.connection import connect, migrate
from penstock.load.publish import publish_in
from penstock.load.results.tables import prepare_results

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def publish(db: str, pipeline: Pipeline, first: int, rows: int) -> float:
    """Stage a load, and time its publish transaction."""
    with connect(db) as connection:
        load = stage(connection, pipeline, first, rows)
        prepare_results(connection, pipeline)
        connection.execute("update penstock.load set state = 'validated' where load_id = %s", [load.load_id])
        connection.commit()
        began = time.monotonic()
        publish_in(connection, load.load_id)
        connection.commit()
        return time.monotonic() - began


if __name__ == "__main__":
    main()
