"""Replaying: rows that other loads hold of a range go, and what those keep beside stays theirs. In one transaction."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self

from penstock.ledger.coverage import run, run_on_range
from penstock.ledger.load import read_load
from penstock.model.ranges import Range, intersect_ranges, subtract_ranges
from penstock.target.postgres.row_hash import describe_rows
from penstock.target.postgres.table import attempt_table, target_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from psycopg import Cursor

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load


@dataclass(frozen=True, slots=True)
class Sum:
    """How many rows, and the sum of their hashes."""

    rows: int = 0
    hash: Decimal = Decimal()

    def __add__(self, other: Self) -> Self:
        return type(self)(self.rows + other.rows, self.hash + other.hash)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.rows - other.rows, self.hash - other.hash)


NOTHING = Sum()


def replace_covered(connection: Connection, load: Load) -> None:
    """Take out what other loads hold of a load's ranges; what they hold beside stays theirs, rows and coverage."""
    taken = run(connection, "uncover_overlaps", load_id=load.load_id).fetchall()
    taken.sort(key=lambda row: (row["load_id"], row["partition"]))
    for (load_id, _), rows in groupby(taken, key=lambda row: (row["load_id"], row["partition"])):
        _replace(connection, load, read_load(connection, load_id), list(rows))
    for replaced in {row["load_id"] for row in taken}:
        run(connection, "supersede_replaced", load_id=replaced, successor=load.load_id)


def _replace(connection: Connection, load: Load, holder: Load, taken: Sequence[dict[str, Any]]) -> None:
    """Replace what a load has of one partition, as far as it is in the other's ranges."""
    held = [Range(row["partition"], row["from_offset"], row["until_offset"]) for row in taken]
    parts, rests = intersect_ranges(held, list(load.ranges)), subtract_ranges(held, list(load.ranges))
    where = {"load_id": holder.load_id, "partition": held[0].partition}
    (standing,) = run(connection, "read_standing", **where).fetchall()
    stays = bool(rests) or standing["beside"]
    gone = _sum_rows(connection, holder, parts, in_target=True) if stays else NOTHING
    for part in parts:
        run_on_range(connection, "delete_rows", holder.load_id, part, **describe_rows(holder))
    kept = _add(run_on_range(connection, "cover_rest", holder.load_id, rest, **describe_rows(holder)) for rest in rests)
    run(connection, "forget_difference", **where)
    if not stays or any(row["row_hash"] is None for row in taken):
        return
    before = Sum(standing["rows"], standing["row_hash"]) if standing["rows"] is not None else NOTHING
    said = sum((Sum(row["rows"], row["row_hash"]) for row in taken), NOTHING)
    if before != NOTHING or said != gone + kept:
        # Rows had been changed. What comes is what those were that go: what is left over, those that stay lack.
        came = _sum_rows(connection, load, parts, holder.declaration) if _reads_alike(load, holder) else gone
        difference = before + said - kept - came
        if difference != NOTHING:
            run(connection, "keep_difference", **where, rows=difference.rows, row_hash=difference.hash)


def _reads_alike(load: Load, holder: Load) -> bool:
    """Whether a load makes the same of a record as another did, columns aside that it alone has."""
    now, then = load.declaration, holder.declaration
    return (now.value, now.key, now.isolation) == (then.value, then.key, then.isolation) and all(
        column in now.columns for column in then.columns
    )


def _sum_rows(
    connection: Connection,
    load: Load,
    ranges: Iterable[Range],
    declared: Pipeline | None = None,
    *,
    in_target: bool = False,
) -> Sum:
    """Sum up the rows that a load has of ranges: in the target, or staged."""
    target, staged = target_identifier(load.declaration.target), attempt_table(load.load_id, load.attempt)
    table = target if in_target else staged
    pieces = describe_rows(load, declared) | {"table": table}
    return _add(run_on_range(connection, "hash_rows", load.load_id, range_, **pieces) for range_ in ranges)


def _add(found: Iterable[Cursor[Any]]) -> Sum:
    sums = (Sum(rows, Decimal(hash_)) for cursor in found for rows, hash_ in cursor)
    return sum(sums, NOTHING)
