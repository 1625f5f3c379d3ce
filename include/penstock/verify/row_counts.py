"""The comparison of the table with the ledger: the number and the fingerprint of the rows of each range.

Each leaf of the target is read once, whatever number of loads it holds. No lock is taken for this first count, so a
publish, replay, rollback or merge may change the rows meanwhile. Loads with wrong counts are counted again under the
pipeline's lock, which all of these take; if their counts are still wrong, that is a fault.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.declaration.pipeline import Pipeline
from penstock.ledger import verification
from penstock.ledger.connection import open_ledger
from penstock.ledger.pipeline import lock_pipeline
from penstock.ledger.verification import ALL_LOADS
from penstock.model.ranges import Range
from penstock.target.base import RowSum
from penstock.target.postgres.rows import hash_row
from penstock.target.postgres.table import describe_columns, read_columns, target_identifier
from penstock.verify.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from decimal import Decimal

    from psycopg import sql

    from penstock.declaration.pipeline import Target
    from penstock.ledger.connection import Connection
    from penstock.ledger.verification import CountedLeaf, OrphanedRows


CHANGED_BEFORE_REPLAY = (
    "rows of the load were changed before other rows of the load were replaced; the changed rows are in one of its "
    "ranges in this partition."
)


@dataclass(frozen=True, slots=True)
class Covering:
    """A load that covers a range, and the expression that hashes its rows."""

    load_id: int
    generation_id: int
    target: sql.Identifier
    row_hash: sql.Composed


@dataclass(frozen=True, slots=True)
class RangeCounts:
    """A published range: the ledger's counts and fingerprint of its rows (`expected`), and the table's (`found`).

    `difference` is the known difference of all ranges of the load in this partition together.
    """

    load_id: int
    generation_id: int
    range: Range
    expected: int
    found: int
    expected_hash: Decimal | None
    found_hash: Decimal
    expected_quarantined: int
    found_quarantined: int
    difference: int | None
    difference_hash: Decimal | None
    stray: bool  # the rows are outside the ranges of their load


def count_loads(
    uri: str, pipeline: str, leaves: Sequence[CountedLeaf] = ALL_LOADS
) -> Iterator[tuple[list[RangeCounts], list[Fault]]]:
    """Count the rows of the loads of some leaves that cover a range, leaf by leaf, and find the faults of each leaf."""
    with open_ledger(uri) as connection:
        together = _group_covering(connection, pipeline, leaves)
        connection.commit()
        for loads in together:
            counted, faults = _count_group(connection, pipeline, loads)
            connection.commit()
            yield counted, faults


def _count_group(
    connection: Connection, pipeline: str, loads: Sequence[Covering]
) -> tuple[list[RangeCounts], list[Fault]]:
    """Count loads of one leaf; count those with wrong counts again, under the pipeline's lock."""
    counted = _count(connection, loads)
    odd = {fault.load for fault in compare_counts(counted)}
    if not odd:
        return counted, []
    lock_pipeline(connection, pipeline)
    again = _count(connection, [load for load in loads if load.load_id in odd])
    return [each for each in counted if each.load_id not in odd] + again, compare_counts(again)


def compare_counts(counted: Iterable[RangeCounts]) -> list[Fault]:
    """Compare the counts of the ledger with those of the table."""
    together: dict[tuple[int, int], list[RangeCounts]] = defaultdict(list)
    faults: list[Fault] = []
    for each in counted:
        if each.stray:
            message = f"{each.found} rows within these offsets are outside the ranges that the load covers."
            faults.append(Fault("rows_outside", message, each.range, each.load_id, each.generation_id))
        else:
            together[each.load_id, each.range.partition].append(each)
            faults += _compare_quarantine(each)
    return faults + [fault for ranges in together.values() for fault in _compare_partition(ranges)]


def _compare_partition(ranges: Sequence[RangeCounts]) -> Iterator[Fault]:
    """Compare the ranges of a load in one partition: each alone, or their sum if only their sum is known."""
    difference, difference_hash = ranges[0].difference, ranges[0].difference_hash
    if difference is None or difference_hash is None:
        for each in ranges:
            yield from _compare_range(each)
        return
    expected = sum(each.expected for each in ranges) + difference
    expected_hash = sum(each.expected_hash or 0 for each in ranges) + difference_hash
    if (expected, expected_hash) != (sum(each.found for each in ranges), sum(each.found_hash for each in ranges)):
        for each in ranges:
            yield from list(_compare_range(each)) or [
                Fault("rows_changed", CHANGED_BEFORE_REPLAY, each.range, each.load_id, each.generation_id)
            ]


def _compare_range(counted: RangeCounts) -> Iterator[Fault]:
    where = (counted.range, counted.load_id, counted.generation_id)
    if counted.found < counted.expected:
        yield Fault("rows_missing", _describe_rows(counted), *where)
    elif counted.found > counted.expected:
        yield Fault("rows_too_many", _describe_rows(counted), *where)
    elif counted.expected_hash is not None and counted.found_hash != counted.expected_hash:
        message = f"the {counted.found} rows in the table have another fingerprint than the published rows."
        yield Fault("rows_changed", message, *where)


def _compare_quarantine(counted: RangeCounts) -> Iterator[Fault]:
    found, expected = counted.found_quarantined, counted.expected_quarantined
    if found != expected:
        message = f"the quarantine holds {found} records, and {expected} were quarantined."
        yield Fault("quarantine", message, counted.range, counted.load_id, counted.generation_id)


def _describe_rows(counted: RangeCounts) -> str:
    return f"the table holds {counted.found} rows, and {counted.expected} were published."


def _group_covering(connection: Connection, pipeline: str, leaves: Sequence[CountedLeaf]) -> list[list[Covering]]:
    """Group the loads that are in one leaf and have one row hash. Each different declaration is read once."""
    declared: dict[str, tuple[sql.Identifier, sql.Composed]] = {}
    together: dict[tuple[str | int, str], list[Covering]] = defaultdict(list)
    for row in verification.find_covering_loads(connection, pipeline, leaves):
        if row.declaration not in declared:
            declaration = Pipeline.read_kept(row.declaration)
            declared[row.declaration] = target_identifier(declaration.target), hash_row(declaration)
        load = Covering(row.load_id, row.generation_id, *declared[row.declaration])
        together[row.leaf or load.load_id, load.row_hash.as_string(None)].append(load)
    return list(together.values())


def _count(connection: Connection, loads: Sequence[Covering]) -> list[RangeCounts]:
    """Count the rows of loads that have one row hash: in the ranges that they cover, and outside them."""
    generations = {load.load_id: load.generation_id for load in loads}
    pieces = {"target": loads[0].target, "row_hash": loads[0].row_hash}

    def make(
        load_id: int,
        partition: int,
        from_offset: int,
        until_offset: int,
        **counts: Any,  # noqa: ANN401 - the other columns of the statement, named as the fields
    ) -> RangeCounts:
        return RangeCounts(load_id, generations[load_id], Range(partition, from_offset, until_offset), **counts)

    return verification.count_rows(connection, make, list(generations), pieces)


def sum_target_rows(connection: Connection, verification_id: int) -> dict[tuple[int, int], RowSum]:
    """Compute the fingerprints of the target's rows in the chunks that are read again, by load and task."""
    sums: dict[tuple[int, int], RowSum] = {}
    for declared in verification.find_requested_declarations(connection, verification_id):
        declaration = Pipeline.read_kept(declared.declaration)
        pieces = {"target": target_identifier(declaration.target), "row_hash": hash_row(declaration)}
        for summed in verification.sum_covered(connection, verification_id, declared.loads, pieces):
            sums[summed.load_id, summed.task] = RowSum(summed.rows, int(summed.row_hash))
    return sums


def find_missing_columns(uri: str, pipeline: str) -> list[Fault]:
    """Find columns of published loads that were dropped from the target: the rows cannot be hashed without them."""
    with open_ledger(uri) as connection:
        missing: dict[Target, set[str]] = defaultdict(set)
        for text in verification.find_declarations(connection, pipeline):
            declared = Pipeline.read_kept(text)
            missing[declared.target] |= describe_columns(declared).keys() - read_columns(connection, declared.target)
    return [
        Fault(
            "rows_changed",
            f"the target {target} has no column {', '.join(sorted(names))} any more; no row was counted.",
        )
        for target, names in missing.items()
        if names
    ]


def find_orphans(uri: str, pipeline: str, target: Target, leaves: Sequence[CountedLeaf]) -> list[Fault]:
    """Find rows in some leaves of loads that cover nothing: no load has published them."""
    with open_ledger(uri) as connection:
        if not read_columns(connection, target):
            return []
        pieces = {"target": target_identifier(target)}
        orphans: list[OrphanedRows] = []
        for leaf in leaves:
            found = verification.find_orphans(connection, pipeline, leaf, pieces)
            if found:
                lock_pipeline(connection, pipeline)
                orphans += verification.find_orphans(connection, pipeline, leaf, pieces)
            connection.commit()
    return [
        Fault("rows_outside", f"{each.rows} rows name load {each.load_id}, which covers nothing.", each.range)
        for each in orphans
    ]
