"""A replay replaces, in one transaction, the rows that other loads have of its ranges.

The other loads keep their rows and coverage outside these ranges. A redrive replaces quarantined records in this way.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import FencedError
from penstock.ledger import coverage
from penstock.ledger.dropped import refuse_dropped
from penstock.ledger.hole import forget_named
from penstock.ledger.load import read_load, supersede_replaced_loads
from penstock.ledger.redrive import take_records
from penstock.ledger.verification import count_again
from penstock.model.ranges import Range, intersect_ranges, subtract_ranges
from penstock.target.base import RowSum
from penstock.target.registry import find_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import sql

    from penstock.ledger.connection import Connection
    from penstock.ledger.coverage import Overlap
    from penstock.model.load import Load

NOTHING = RowSum()


def replace_covered(connection: Connection, load: Load, into: sql.Identifier | None = None) -> None:
    """Delete the rows and the coverage that other loads have of a load's ranges, and keep what they have elsewhere.

    The rows are moved to the table `into`, if there is one.
    """
    taken = coverage.uncover_overlaps(connection, load)
    refuse_dropped(connection, load, sorted({overlap.load_id for overlap in taken}))
    taken.sort(key=lambda overlap: (overlap.load_id, overlap.partition))
    for (load_id, _), overlaps in groupby(taken, key=lambda overlap: (overlap.load_id, overlap.partition)):
        _replace(connection, load, read_load(connection, load_id), list(overlaps), into)
    holders = sorted({overlap.load_id for overlap in taken})
    count_again(connection, load.pipeline, [(holder, holder + 1) for holder in holders])
    forget_named(connection, holders)
    supersede_replaced_loads(connection, holders, successor=load.load_id)


def replace_quarantined(connection: Connection, load: Load) -> None:
    """Take the records out of the quarantine and their offsets out of the coverage of the loads that had them.

    It runs in the publish transaction, so a record is in the quarantine or in the target, never in both.
    """
    find_store(load.declaration).interrupt_merge(connection)
    planned = sum(map(len, load.ranges))
    taken = take_records(connection, load)
    if taken != planned:
        raise FencedError(
            f"{planned - taken} of the {planned} records have left the quarantine since the redrive was planned; "
            "nothing is published.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step=advice.redrive_rest(load.pipeline),
        )
    replace_covered(connection, load)


def _replace(
    connection: Connection, load: Load, holder: Load, taken: Sequence[Overlap], into: sql.Identifier | None
) -> None:
    """Replace the rows that the holder has of one partition, in the ranges of the load.

    The coverage that the holder keeps gets the count and hash of the remaining rows. If rows were altered after
    publishing, a recorded difference keeps `verify` from accepting the altered rows as correct.
    """
    held = [overlap.range for overlap in taken]
    parts, rests = intersect_ranges(held, list(load.ranges)), subtract_ranges(held, list(load.ranges))
    where = (holder.load_id, held[0].partition)
    earlier = coverage.read_difference(connection, *where)
    holder_keeps_rows = bool(rests) or earlier.covers_more
    store = find_store(holder.declaration)
    deleted = NOTHING
    for part in parts:
        if holder_keeps_rows:
            deleted += store.count(connection, holder, part)
        store.delete(connection, holder, part, into)
    kept = NOTHING
    for rest in rests:
        found = store.count(connection, holder, rest)
        coverage.cover_rest(connection, holder.load_id, rest, found.rows, found.hash)
        kept += found
    coverage.forget_difference(connection, *where)
    published = _sum_published(taken)
    if not holder_keeps_rows or published is None:
        return
    known_difference = NOTHING
    if earlier.rows is not None and earlier.row_hash is not None:
        known_difference = RowSum(earlier.rows, int(earlier.row_hash))
    if known_difference != NOTHING or published != deleted + kept:
        # Some rows were altered after publishing. The reloaded rows equal the originals of the deleted ones, so
        # published - kept - reloaded is the difference of the rows that stay.
        reloaded = _count_reloaded(connection, load, parts, holder) if _decodes_alike(load, holder) else deleted
        difference = known_difference + published - kept - reloaded
        if difference != NOTHING:
            coverage.record_difference(connection, *where, difference.rows, difference.hash)


def _sum_published(taken: Sequence[Overlap]) -> RowSum | None:
    """The published rows of ranges; None if a range was published without a fingerprint."""
    published = NOTHING
    for overlap in taken:
        if overlap.row_hash is None:
            return None
        published += RowSum(overlap.rows, int(overlap.row_hash))
    return published


def _decodes_alike(load: Load, holder: Load) -> bool:
    """Whether a load decodes a record to the same values as the holder, in the columns of the holder.

    A transform may be another one, or read other tables, by now.
    """
    now, then = load.declaration, holder.declaration
    if now.transform or then.transform:
        return False
    return (now.value, now.key, now.isolation) == (then.value, then.key, then.isolation) and all(
        column in now.columns for column in then.columns
    )


def _count_reloaded(connection: Connection, load: Load, ranges: Sequence[Range], holder: Load) -> RowSum:
    """Count and hash the staged rows of the load, by the columns of the holder."""
    store = find_store(load.declaration)
    counted = (store.count_staged(connection, load, range_, holder.declaration) for range_ in ranges)
    return sum(counted, NOTHING)
