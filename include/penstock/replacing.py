"""Replaying: rows that other loads hold of a range go, and what those keep beside stays theirs. In one transaction."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING

from penstock.coverage import run, run_on_range
from penstock.ledger import read_load
from penstock.ranges import Range, intersect_ranges, subtract_ranges
from penstock.target import attempt_table, target_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import sql

    from penstock.ledger import Connection, Load


def replace_covered(connection: Connection, load: Load) -> None:
    """Take out what other loads hold of a load's ranges; what they hold beside stays theirs, rows and coverage."""
    taken = run(connection, "uncover_overlaps", load_id=load.load_id).fetchall()
    for row in taken:
        held = Range(row["partition"], row["from_offset"], row["until_offset"])
        _replace(connection, load, read_load(connection, row["load_id"]), held, row["row_hash"])
    for replaced in {row["load_id"] for row in taken}:
        run(connection, "supersede_replaced", load_id=replaced, successor=load.load_id)


def _replace(connection: Connection, load: Load, holder: Load, held: Range, said: Decimal | None) -> None:
    parts, rests = intersect_ranges([held], list(load.ranges)), subtract_ranges([held], list(load.ranges))
    gone = _hash_rows(connection, holder, parts, target_identifier(holder.declaration.target)) if rests else Decimal()
    for part in parts:
        run_on_range(connection, "delete_rows", holder, part)
    kept = sum((_cover_rest(connection, holder, rest) for rest in rests), Decimal())
    if rests and said is not None and said != gone + kept:
        _keep_difference(connection, load, holder, parts, rests[0], said - kept, gone)


def _keep_difference(
    connection: Connection, load: Load, holder: Load, parts: Sequence[Range], rest: Range, said: Decimal, gone: Decimal
) -> None:
    """Rows had been changed behind Penstock's back. Unless it was those that go, what stays must not seem to fit.

    What comes in their place tells: the rows of the same records have the fingerprint that those had before.
    """
    if said != _hash_rows(connection, load, parts, attempt_table(load.load_id, load.attempt)):
        run(
            connection,
            "keep_difference",
            load_id=holder.load_id,
            difference=said - gone,
            **asdict(rest),
        )


def _cover_rest(connection: Connection, holder: Load, rest: Range) -> Decimal:
    (row_hash,) = run_on_range(connection, "cover_rest", holder, rest).fetchone() or (Decimal(),)
    return Decimal(row_hash)


def _hash_rows(connection: Connection, load: Load, ranges: Sequence[Range], table: sql.Identifier) -> Decimal:
    found = (run_on_range(connection, "hash_rows", load, range_, table=table).fetchone() for range_ in ranges)
    return sum((Decimal(row[0]) for row in found if row), Decimal())
