"""Whether the table holds, range by range, the rows that the ledger says: their number and their fingerprint.

Each leaf of the target is read once, whatever number of loads it holds. Nothing is locked meanwhile, so a publish,
replay, rollback or merge may come between the ledger and the rows. Whatever does not fit is counted once more behind
the pipeline's lock, which all of them take: what then does not fit is a fault.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.declaration.pipeline import Pipeline
from penstock.ledger import verification
from penstock.ledger.connection import open_ledger
from penstock.ledger.pipeline import lock_pipeline
from penstock.model.ranges import Range
from penstock.target.postgres.rows import hash_row
from penstock.target.postgres.table import describe_columns, read_columns, target_identifier
from penstock.verify.faults import Fault
from penstock.verify.rebuilt_rows import RowSum

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from decimal import Decimal

    from psycopg import sql

    from penstock.declaration.pipeline import Target
    from penstock.ledger.connection import Connection
    from penstock.ledger.verification import CountedRange, OrphanedRows


LACKING = (
    "rows of the load had been changed when others of it were replaced; in which of its ranges in this partition they "
    "are is not known."
)


@dataclass(frozen=True, slots=True)
class Covering:
    """A load that covers anything, and how the rows of it are hashed."""

    load_id: int
    generation_id: int
    target: sql.Identifier
    row_hash: sql.Composed


@dataclass(frozen=True, slots=True)
class Counted:
    """A published range: what the ledger says of its rows, and what the table holds.

    Of the load's ranges in a partition all together, some rows may be known to lack what was published.
    """

    load_id: int
    generation_id: int
    range: Range
    said: int
    found: int
    said_hash: Decimal | None
    found_hash: Decimal
    said_quarantined: int
    found_quarantined: int
    lacked: int | None
    lacked_hash: Decimal | None
    stray: bool  # rows within these offsets that are in no range of their load


def count_loads(uri: str, pipeline: str) -> Iterator[tuple[list[Counted], list[Fault]]]:
    """Count the rows of all loads that cover anything, leaf by leaf; with each come the faults found in it."""
    with open_ledger(uri) as connection:
        together = _group_covering(connection, pipeline)
        connection.commit()
        for loads in together:
            counted, faults = _count_fitting(connection, pipeline, loads)
            connection.commit()
            yield counted, faults


def _count_fitting(
    connection: Connection, pipeline: str, loads: Sequence[Covering]
) -> tuple[list[Counted], list[Fault]]:
    """Count loads that lie together; those that do not seem to fit once more, with the pipeline at rest."""
    counted = _count(connection, loads)
    odd = {fault.load for fault in judge_counted(counted)}
    if not odd:
        return counted, []
    lock_pipeline(connection, pipeline)
    again = _count(connection, [load for load in loads if load.load_id in odd])
    return [each for each in counted if each.load_id not in odd] + again, judge_counted(again)


def judge_counted(counted: Iterable[Counted]) -> list[Fault]:
    """Compare what the ledger says of ranges with what the table holds."""
    together: dict[tuple[int, int], list[Counted]] = defaultdict(list)
    faults: list[Fault] = []
    for each in counted:
        if each.stray:
            told = f"{each.found} rows within these offsets lie outside the ranges that the load covers."
            faults.append(Fault("rows_outside", told, each.range, each.load_id, each.generation_id))
        else:
            together[each.load_id, each.range.partition].append(each)
            faults += _judge_quarantine(each)
    return faults + [fault for ranges in together.values() for fault in _judge_together(ranges)]


def _judge_together(ranges: Sequence[Counted]) -> Iterator[Fault]:
    """Judge what a load has of a partition: range by range, or in sum where that is all that is known."""
    lacked, lacked_hash = ranges[0].lacked, ranges[0].lacked_hash
    if lacked is None or lacked_hash is None:
        for each in ranges:
            yield from _judge(each)
        return
    said = sum(each.said for each in ranges) + lacked, sum(each.said_hash or 0 for each in ranges) + lacked_hash
    if said != (sum(each.found for each in ranges), sum(each.found_hash for each in ranges)):
        for each in ranges:
            yield from list(_judge(each)) or [
                Fault("rows_changed", LACKING, each.range, each.load_id, each.generation_id)
            ]


def _judge(counted: Counted) -> Iterator[Fault]:
    where = (counted.range, counted.load_id, counted.generation_id)
    if counted.found < counted.said:
        yield Fault("rows_missing", _tell_rows(counted), *where)
    elif counted.found > counted.said:
        yield Fault("rows_too_many", _tell_rows(counted), *where)
    elif counted.said_hash is not None and counted.found_hash != counted.said_hash:
        yield Fault("rows_changed", f"the table's {counted.found} rows are not those that were published.", *where)


def _judge_quarantine(counted: Counted) -> Iterator[Fault]:
    if counted.found_quarantined != counted.said_quarantined:
        told = f"{counted.found_quarantined} records are in quarantine, and {counted.said_quarantined} were put there."
        yield Fault("quarantine", told, counted.range, counted.load_id, counted.generation_id)


def _tell_rows(counted: Counted) -> str:
    return f"the table holds {counted.found} rows, and {counted.said} were published."


def _group_covering(connection: Connection, pipeline: str) -> list[list[Covering]]:
    """The loads that lie in one leaf and are hashed alike. Most have the same declaration: each is read once."""
    declared: dict[str, tuple[sql.Identifier, sql.Composed]] = {}
    together: dict[tuple[str | int, str], list[Covering]] = defaultdict(list)
    for row in verification.find_covering_loads(connection, pipeline):
        if row.declaration not in declared:
            declaration = Pipeline.read_kept(row.declaration)
            declared[row.declaration] = target_identifier(declaration.target), hash_row(declaration)
        load = Covering(row.load_id, row.generation_id, *declared[row.declaration])
        together[row.leaf or load.load_id, load.row_hash.as_string(None)].append(load)
    return list(together.values())


def _count(connection: Connection, loads: Sequence[Covering]) -> list[Counted]:
    """Count the rows of loads that are hashed alike, by the ranges they cover, and those that lie in none."""
    generations = {load.load_id: load.generation_id for load in loads}
    pieces = {"target": loads[0].target, "row_hash": loads[0].row_hash}
    rows = verification.count_rows(connection, list(generations), pieces)
    return [_make_counted(generations[row.load_id], row) for row in rows]


def _make_counted(generation_id: int, row: CountedRange) -> Counted:
    return Counted(
        row.load_id,
        generation_id,
        Range(row.partition, row.from_offset, row.until_offset),
        row.said,
        row.found,
        row.said_hash,
        row.found_hash,
        row.said_quarantined,
        row.found_quarantined,
        row.lacked,
        row.lacked_hash,
        row.stray,
    )


def read_held(connection: Connection, verification_id: int) -> dict[tuple[int, int], RowSum]:
    """The fingerprints of the rows that the target holds of chunks that are read again, by load and task."""
    held: dict[tuple[int, int], RowSum] = {}
    for declared in verification.find_requested_declarations(connection, verification_id):
        declaration = Pipeline.read_kept(declared.declaration)
        pieces = {"target": target_identifier(declaration.target), "row_hash": hash_row(declaration)}
        for summed in verification.sum_covered(connection, verification_id, declared.loads, pieces):
            held[summed.load_id, summed.task] = RowSum(summed.rows, int(summed.row_hash))
    return held


def find_lacking(uri: str, pipeline: str) -> list[Fault]:
    """Find what the table lacks by now of the columns that loads were published with; their rows cannot be hashed."""
    with open_ledger(uri) as connection:
        rows = verification.find_covering_loads(connection, pipeline)
        lacking: dict[Target, set[str]] = defaultdict(set)
        for text in {row.declaration for row in rows}:
            declared = Pipeline.read_kept(text)
            lacking[declared.target] |= describe_columns(declared).keys() - read_columns(connection, declared.target)
    return [
        Fault(
            "rows_changed",
            f"the target {target} has no column {', '.join(sorted(names))} any more; no row was counted.",
        )
        for target, names in lacking.items()
        if names
    ]


def find_orphans(uri: str, pipeline: str, target: Target) -> list[Fault]:
    """Find rows of loads that cover nothing: nobody has published them."""
    with open_ledger(uri) as connection:
        if not read_columns(connection, target):
            return []
        orphans = _find_orphans(connection, pipeline, target)
        if orphans:
            lock_pipeline(connection, pipeline)
            orphans = _find_orphans(connection, pipeline, target)
    return [
        Fault("rows_outside", f"{each.rows} rows name load {each.load_id}, which covers nothing.", each.range)
        for each in orphans
    ]


def _find_orphans(connection: Connection, pipeline: str, target: Target) -> list[OrphanedRows]:
    return verification.find_orphans(connection, pipeline, {"target": target_identifier(target)})
