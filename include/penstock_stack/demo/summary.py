"""The results of the demo's loads, from the ledger and the target."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from rich.table import Table

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from rich.console import Console

RANGES = """select r.load_id, r.partition, r.from_offset, r.until_offset, r.rows, r.quarantined, r.holes
from penstock.ranges r join penstock.loads l using (pipeline, load_id)
where pipeline = %s and l.state = 'published' and load_id > %s order by 1, 2"""
QUARANTINED = """select load_id, partition, "offset", reason from penstock.quarantined
where pipeline = %s and load_id > %s order by 1, 2, 3"""
POSITIONS = """select distinct on (partition) partition, position from penstock.positions
where pipeline = %s order by partition, generation desc"""

# These columns fit a screen of 80 characters.
SHOWN = ("order_id", "country", "amount", "currency", "placed", "_load_id", "_partition", "_offset")
COUNTS = {"from", "until", "rows", "quarantined", "holes", "orders"}
CUSTOMERS = """select customer_id, country, last_order, amount, currency, placed, _partition, _offset
from analytics.customers order by last_order desc limit 5"""
TOTALS = "select hour, currency, orders, amount from analytics.sales_by_hour order by hour desc, currency limit 6"
SUMS = """select (select count(*) from analytics.customers), (select sum(orders) from analytics.sales_by_hour),
       (select count(*) from analytics.orders)"""


def print_summary(out: Console, uri: str, pipeline: str, target: str, after: int) -> None:
    """Print the results of the loads after load `after`, and check the sums."""
    with psycopg.connect(uri) as conn:
        ranges = conn.execute(RANGES, [pipeline, after]).fetchall()
        _print(out, "Loaded", ("load", "partition", "from", "until", "rows", "quarantined", "holes"), ranges)
        _print_sums(out, ranges)
        broken = conn.execute(QUARANTINED, [pipeline, after]).fetchall()
        _print(out, "Quarantined", ("load", "partition", "offset", "reason"), broken)
        _print_rows(out, conn, target, sum(int(found[4]) for found in ranges), after)
        _print_results(out, conn, pipeline)
        positions = conn.execute(POSITIONS, [pipeline]).fetchall()
        _print(out, "Positions: the next load starts here", ("partition", "offset"), positions)


def newest_load(uri: str, pipeline: str) -> int:
    """The number of the newest load of a pipeline; 0 when it has none."""
    with psycopg.connect(uri) as conn:
        found = conn.execute(
            "select coalesce(max(load_id), 0) from penstock.loads where pipeline = %s", [pipeline]
        ).fetchone()
    return int(found[0]) if found else 0


def read_progress(uri: str, pipeline: str, after: int) -> tuple[int, int]:
    """Read the staged and the planned offsets of the newest load."""
    with psycopg.connect(uri) as conn:
        found = conn.execute(
            "select coalesce(sum(done), 0), coalesce(sum(planned), 0) from penstock.progress "
            "where load_id = (select max(load_id) from penstock.loads where pipeline = %s and load_id > %s)",
            [pipeline, after],
        ).fetchone()
    return (int(found[0]), int(found[1])) if found else (0, 0)


def read_cause(uri: str, pipeline: str) -> str:
    """Read the cause for which the newest load of a pipeline is not published."""
    with psycopg.connect(uri) as conn:
        found = conn.execute(
            "select state, cause from penstock.loads where pipeline = %s order by load_id desc limit 1", [pipeline]
        ).fetchone()
    return f"its newest load is {found[0]}: {found[1] or 'the ledger has no cause'}" if found else "it made no load"


def _print_sums(out: Console, ranges: list[tuple[int, ...]]) -> None:
    offsets = sum(until - start for _, _, start, until, *_ in ranges)
    rows, quarantined, holes = (sum(found[place] for found in ranges) for place in (4, 5, 6))
    if offsets != rows + quarantined + holes:
        raise PenstockError(
            f"{offsets} offsets are not {rows} + {quarantined} + {holes}.", next_step="report this defect of Penstock."
        )
    out.print(
        f"{offsets:,} offsets = {rows:,} rows + {quarantined:,} quarantined + {holes:,} holes "
        "(aborted records, and the marker that ends each transaction in each partition)\n"
    )


def _print_rows(out: Console, conn: psycopg.Connection[Any], target: str, expected: int, after: int) -> None:
    schema, _, table = target.partition(".")
    name = sql.Identifier(schema, table)
    counted = conn.execute(sql.SQL("select count(*) from {} where _load_id > %s").format(name), [after]).fetchone()
    if counted is None or counted[0] != expected:
        raise PenstockError(
            f"{target} holds {counted} of {expected} rows.", next_step="report this defect of Penstock."
        )
    few = sql.SQL("select {} from {} order by _load_id desc, _offset, _partition limit 5").format(
        sql.SQL(", ").join(map(sql.Identifier, SHOWN)), name
    )
    _print(out, f"A few of the {expected:,} new rows in {target}", SHOWN, conn.execute(few).fetchall())


def _print_results(out: Console, conn: psycopg.Connection[Any], pipeline: str) -> None:
    """Print a few rows of both results. A table of orders that is older than its results waits for their rebuild."""
    waiting = conn.execute(
        """select "table" from penstock.results where pipeline = %s and state <> 'current'""", [pipeline]
    ).fetchall()
    if waiting:
        out.print("\n".join(f"{table} waits. Next: penstock rebuild {pipeline} {table}" for (table,) in waiting))
        return
    [(customers, orders, rows)] = conn.execute(SUMS).fetchall()
    cursor = conn.execute(CUSTOMERS)
    shown = tuple(column.name for column in cursor.description or ())
    _print(out, f"A few of the {customers:,} customers in analytics.customers", shown, cursor.fetchall())
    totals = conn.execute(TOTALS).fetchall()
    _print(out, "Running totals in analytics.sales_by_hour", ("hour", "currency", "orders", "amount"), totals)
    out.print(f"{orders:,} orders in the totals, {rows:,} rows in analytics.orders\n")


def _print(out: Console, title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    out.print(f"[bold]{title}[/]")
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(_write(name, cell) for name, cell in zip(columns, row, strict=True)))
    out.print(table)
    out.print()


def _write(column: str, cell: object) -> str:
    if isinstance(cell, datetime):
        return f"{cell:%H:%M:%S}"
    return f"{cell:,}" if column in COUNTS else str(cell)
