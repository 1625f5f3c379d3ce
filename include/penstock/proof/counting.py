"""Whether the table holds, range by range, the rows that the ledger says: their number and their fingerprint.

Nothing is locked while rows are counted, so a publish, replay or rollback may come between the ledger and the rows.
Whatever does not fit is counted once more behind the pipeline's lock, which all of them take: what then does not fit
is a fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from penstock import ledger
from penstock.ledger import open_ledger, read_load
from penstock.proof.adding_up import run
from penstock.proof.faults import Fault
from penstock.proof.rows import hash_row
from penstock.ranges import Range
from penstock.statements import read_statements
from penstock.target import read_columns, target_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from decimal import Decimal

    from penstock.ledger import Connection, Load
    from penstock.pipeline import Target


@dataclass(frozen=True, slots=True)
class Counted:
    """A published range: what the ledger says of its rows, and what the table holds."""

    range: Range
    said: int
    found: int
    said_hash: Decimal | None
    found_hash: Decimal
    said_quarantined: int
    found_quarantined: int


def count_loads(uri: str, pipeline: str) -> Iterator[tuple[Load, list[Counted], list[Fault]]]:
    """Count the rows of every load that covers anything; with each come the faults found in it."""
    with open_ledger(uri) as connection:
        loads = [row["load_id"] for row in run(connection, "find_covering_loads", pipeline=pipeline)]
        connection.commit()
        for load_id in loads:
            load = read_load(connection, load_id)
            counted, outside = _count(connection, load)
            faults = judge_load(load, counted, outside)
            if faults:
                ledger.run(connection, "lock_pipeline", name=pipeline)
                counted, outside = _count(connection, load)
                faults = judge_load(load, counted, outside)
            connection.commit()
            yield load, counted, faults


def judge_load(load: Load, counted: list[Counted], outside: Mapping[int, int]) -> list[Fault]:
    """Compare what the ledger says of a load with what the table holds."""
    faults = [fault for range_ in counted for fault in _judge_range(load, range_)]
    for partition, rows in outside.items():
        told = f"{rows} rows of partition {partition} lie outside the ranges that the load covers."
        faults.append(Fault("rows_too_many", told, None, load.load_id, load.generation_id))
    return faults


def _judge_range(load: Load, counted: Counted) -> Iterator[Fault]:
    where = (counted.range, load.load_id, load.generation_id)
    if counted.found != counted.said:
        kind = "rows_missing" if counted.found < counted.said else "rows_too_many"
        yield Fault(kind, f"the table holds {counted.found} rows, and {counted.said} were published.", *where)  # type: ignore[arg-type]
    elif counted.said_hash is not None and counted.found_hash != counted.said_hash:
        yield Fault("rows_changed", f"the table's {counted.found} rows are not those that were published.", *where)
    if counted.found_quarantined != counted.said_quarantined:
        told = f"{counted.found_quarantined} records are in quarantine, and {counted.said_quarantined} were put there."
        yield Fault("quarantine", told, *where)


def _count(connection: Connection, load: Load) -> tuple[list[Counted], dict[int, int]]:
    """Count the rows of a load by the ranges it covers, and by partition those that lie in none of them."""
    statement = sql.SQL(read_statements("proof")["count_rows"].decode()).format(
        target=target_identifier(load.declaration.target), row_hash=hash_row(load.declaration)
    )
    names = ("partition", "from_offset", "until_offset")
    counted, outside = [], {}
    for row in connection.execute(statement, {"load_id": load.load_id}):
        *where, said, found, said_hash, found_hash, said_quarantined, found_quarantined = row
        if where[1] is None:
            outside[where[0]] = found
        else:
            range_ = Range(**dict(zip(names, where, strict=True)))
            counted.append(Counted(range_, said, found, said_hash, found_hash, said_quarantined, found_quarantined))
    return counted, outside


def find_orphans(uri: str, pipeline: str, target: Target) -> list[Fault]:
    """Find rows of loads that cover nothing: nobody has published them."""
    with open_ledger(uri) as connection:
        if not read_columns(connection, target):
            return []
        orphans = _find_orphans(connection, pipeline, target)
        if orphans:
            ledger.run(connection, "lock_pipeline", name=pipeline)
            orphans = _find_orphans(connection, pipeline, target)
    return [
        Fault("rows_too_many", f"{row['rows']} rows name load {row['load']}, which covers nothing.",
              Range(row["partition"], row["first"], row["last"] + 1))
        for row in orphans
    ]  # fmt: skip


def _find_orphans(connection: Connection, pipeline: str, target: Target) -> list[dict[str, Any]]:
    statement = sql.SQL(read_statements("proof")["find_orphans"].decode()).format(target=target_identifier(target))
    rows = connection.execute(statement, {"pipeline": pipeline}).fetchall()
    return [dict(zip(("load", "partition", "rows", "first", "last"), row, strict=True)) for row in rows]
