"""Replaying: rows that other loads hold of a range go, and what those keep beside stays theirs. In one transaction."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.coverage import run, run_on_range
from penstock.ledger import read_load
from penstock.ranges import Range, intersect_ranges, subtract_ranges
from penstock.target import attempt_table, target_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg import sql

    from penstock.ledger import Connection, Load


def replace_covered(connection: Connection, load: Load) -> None:
    """Take out what other loads hold of a load's ranges; what they hold beside stays theirs, rows and coverage."""
    taken = run(connection, "uncover_overlaps", load_id=load.load_id).fetchall()
    taken.sort(key=lambda row: (row["load_id"], row["partition"], row["from_offset"]))
    for (load_id, partition), rows in groupby(taken, key=lambda row: (row["load_id"], row["partition"])):
        held = {Range(partition, row["from_offset"], row["until_offset"]): row["row_hash"] for row in rows}
        _replace(connection, load, read_load(connection, load_id), held)
    for replaced in {row["load_id"] for row in taken}:
        run(connection, "supersede_replaced", load_id=replaced, successor=load.load_id)


def _replace(connection: Connection, load: Load, holder: Load, held: Mapping[Range, Decimal | None]) -> None:
    """Replace what a load holds of one partition."""
    parts, rests = intersect_ranges(list(held), list(load.ranges)), subtract_ranges(list(held), list(load.ranges))
    stays = rests[:1] or _find_beside(connection, holder, parts[0].partition)
    gone = _hash_rows(connection, holder, parts, target_identifier(holder.declaration.target)) if stays else Decimal()
    for part in parts:
        run_on_range(connection, "delete_rows", holder, part)
    kept = sum((_cover_rest(connection, holder, rest) for rest in rests), Decimal())
    said = [hash_ for hash_ in held.values() if hash_ is not None]
    if stays and len(said) == len(held) and sum(said) != gone + kept:
        _keep_difference(connection, load, holder, parts, stays[0], sum(said) - kept, gone)


def _find_beside(connection: Connection, holder: Load, partition: int) -> list[Range]:
    """Something that the load holds of the partition besides, with a fingerprint."""
    found = run(connection, "find_beside", load_id=holder.load_id, partition=partition)
    return [Range(**row) for row in found]


def _keep_difference(
    connection: Connection, load: Load, holder: Load, parts: Sequence[Range], stays: Range, said: Decimal, gone: Decimal
) -> None:
    """Rows had been changed behind Penstock's back: what the load holds on must not seem to fit, unless it does.

    `said` is the fingerprint that the rows had which go, if none of the others was changed. What comes in their place
    has it, too, if it is read alike. Which of several ranges was changed nobody knows: their sum tells that one was.
    """
    alike = _read_alike(load, holder)
    came = _hash_rows(connection, load, parts, attempt_table(load.load_id, load.attempt)) if alike else gone
    run(connection, "keep_difference", load_id=holder.load_id, difference=said - came, **asdict(stays))


def _read_alike(load: Load, other: Load) -> bool:
    """Whether two loads make the same rows of the same records."""
    one, two = load.declaration, other.declaration
    return (one.columns, one.value, one.key, one.indexes, one.isolation) == (
        two.columns, two.value, two.key, two.indexes, two.isolation,
    )  # fmt: skip


def _cover_rest(connection: Connection, holder: Load, rest: Range) -> Decimal:
    (row_hash,) = run_on_range(connection, "cover_rest", holder, rest).fetchone() or (Decimal(),)
    return Decimal(row_hash)


def _hash_rows(connection: Connection, load: Load, ranges: Sequence[Range], table: sql.Identifier) -> Decimal:
    found = (run_on_range(connection, "hash_rows", load, range_, table=table).fetchone() for range_ in ranges)
    return sum((Decimal(row[0]) for row in found if row), Decimal())
