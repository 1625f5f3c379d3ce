"""The location of faults: the records are read and decoded again, and compared row by row inside the database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from penstock.kafka.readers import native
from penstock.ledger.connection import open_ledger
from penstock.ledger.coverage import read_covered_by_load
from penstock.ledger.load import read_load
from penstock.ledger.verification import read_quarantined_offsets
from penstock.model.ranges import Range, cut_chunks, intersect_ranges
from penstock.verify.faults import Fault
from penstock.verify.rebuilt_rows import ComparedOffsets, RebuiltTable, make_recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ledger.verification import StagedChunk
    from penstock.model.load import Load
    from penstock.model.log import TopicLog
    from penstock.model.ranges import Chunk
    from penstock.records.fingerprint import LogFingerprint
    from penstock.settings import Settings
    from penstock.verify.faults import FaultKind

    DifferenceKind = Literal["missing", "too many", "changed"]

OFFSETS_AT_ONCE = 250_000
# A range that was loaded from quite other records differs everywhere, and a few offsets are enough for a person.
MAX_DIFFERENCES = 20

OTHER_FINGERPRINT = (
    "the rows equal the records in the log, but the ledger has another fingerprint: rows of the load were changed "
    "before other rows of the load were replaced, or the ledger was changed. A replay of the range stores the "
    "fingerprint again."
)
OTHER_VALUES = (
    "The records are those that were loaded: the load stored other values, or this version decodes the records by "
    "other rules, or the rows were changed later."
)
FAULT_KINDS: dict[DifferenceKind, FaultKind] = {
    "changed": "rows_changed",
    "missing": "rows_missing",
    "too many": "rows_too_many",
}
ROW_MESSAGES: dict[DifferenceKind, str] = {
    "changed": "changed row: the record in the log gives other values.",
    "missing": "missing row: the log has a valid record at this offset.",
    "too many": "extra row: the log has no valid record at this offset.",
}
QUARANTINE_MESSAGES: dict[DifferenceKind, str] = {
    "missing": "missing in the quarantine: the record at this offset is rejected.",
    "too many": "extra in the quarantine: the log has no rejected record at this offset.",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """An offset at which the table, or the quarantine, differs from the log."""

    offset: int
    kind: DifferenceKind
    quarantined: bool = False


@dataclass(frozen=True, slots=True)
class LogSource:
    """The log that located faults are compared with, and the generation that is loaded now."""

    settings: Settings
    log: TopicLog
    generation: int
    compacted: bool
    same_topic: bool


def locate_differences(
    settings: Settings, load: Load, range_: Range, *, compacted: bool
) -> tuple[list[Difference], int]:
    """Compare a range with the log; return the first differences, and the number of all differing offsets.

    A compacted log may have fewer records than were loaded.
    """
    differences: list[Difference] = []
    count = 0
    with RebuiltTable(make_recipe(settings, load)) as rebuilt:
        for chunk in cut_chunks([range_], OFFSETS_AT_ONCE):
            found, found_count = _compare(settings.db, load, rebuilt, chunk, compacted=compacted)
            differences += found
            count += found_count
    return sorted(differences, key=lambda difference: difference.offset)[:MAX_DIFFERENCES], count


def _compare(
    db: str, load: Load, rebuilt: RebuiltTable, chunk: Chunk, *, compacted: bool
) -> tuple[list[Difference], int]:
    range_, source = chunk.range, rebuilt.recipe.assignment.source
    with open_ledger(db) as connection:
        rows = read_quarantined_offsets(connection, load.load_id, range_)
    refused = {row.offset for row in rows if row.refused}
    compared = ComparedOffsets(((range_.from_offset, range_.until_offset),), tuple(refused))
    with closing(native.read_whole(source, chunk)) as batches:
        differing = rebuilt.compare(batches, compared, range_, compacted=compacted)
    found = [Difference(offset, kind) for offset, kind, _ in differing]
    quarantined = {row.offset for row in rows} - refused
    quarantine = _compare_quarantine(quarantined, rebuilt.rejected - refused, compacted=compacted)
    return found + quarantine, (differing[0][2] if differing else 0) + len(quarantine)


def _compare_quarantine(quarantined: set[int], rejected: set[int], *, compacted: bool) -> list[Difference]:
    return [
        *(Difference(offset, "missing", quarantined=True) for offset in rejected - quarantined),
        *(Difference(offset, "too many", quarantined=True) for offset in quarantined - rejected if not compacted),
    ]


def locate_log_change(
    source: LogSource, chunk: StagedChunk, found: LogFingerprint, known: Sequence[Fault]
) -> list[Fault]:
    """Locate the faults of a chunk whose records in the log have another fingerprint than when they were loaded.

    If a compacted log has fewer records now, only its records can be compared, and the `known` faults are left out.
    """
    load = _read_load(source, chunk.load_id)
    differences, count = _compare_covered(source, load, chunk.range)
    message = f"the log holds {found.records} records with another fingerprint; {chunk.records} records were loaded."
    if not differences and load.declaration.transform is None and _read_covered(source, load, chunk.range):
        message += " The native reader gives the rows that the table holds, so the two readers do not agree."
    fault = Fault("log_changed", message, chunk.range, chunk.load_id, source.generation)
    located = _make_faults(fault, differences, count)
    if source.compacted and found.records < chunk.records:
        return [each for each in located if each not in known]
    return [fault, *located]


def locate_other_rows(source: LogSource, chunk: StagedChunk, known: Sequence[Fault]) -> list[Fault]:
    """Locate the faults of a chunk whose records, decoded again, give other rows than the target holds.

    Offsets of `known` faults are left out.
    """
    load = _read_load(source, chunk.load_id)
    differences, count = _compare_covered(source, load, chunk.range)
    places = {(fault.load, fault.range) for fault in known}
    fault = Fault("rows_changed", "", chunk.range, chunk.load_id, source.generation)
    located = [
        replace(each, message=f"{each.message} {OTHER_VALUES}") for each in _make_faults(fault, differences, count)
    ]
    return [each for each in located if (each.load, each.range) not in places]


def locate_faults(source: LogSource, faults: Sequence[Fault]) -> list[Fault]:
    """Locate the offsets of the faults in a load's ranges of one partition, as far as the log still holds them.

    If a range does not differ from the log, its rows are right. The fault is then in another of the ranges; if no range
    differs, the fault is in the ledger.
    """
    located: list[Fault] = []
    proven: list[Fault] = []
    left: list[Fault] = []
    for fault in faults:
        readable = _find_readable(source, fault)
        if readable is None or fault.load is None:
            left.append(fault)
            continue
        load = _read_load(source, fault.load)
        if load.declaration.transform is not None or not _read_covered(source, load, readable):
            left.append(fault)
            continue
        found = _make_faults(fault, *_compare_with_log(source, load, [readable]))
        located += found
        if not found:
            whole = fault.kind == "rows_changed" and readable == fault.range and not source.compacted
            (proven if whole else left).append(fault)
    if proven and not located and not left:
        return [replace(fault, kind="ledger", message=OTHER_FINGERPRINT) for fault in proven]
    return [*dict.fromkeys(located), *left]


def _compare_covered(source: LogSource, load: Load, range_: Range) -> tuple[list[Difference], int]:
    """Compare the offsets of a range that its load covers; again if a replay or a rollback changes them meanwhile.

    Rows that a transform made cannot be made again by decoding.
    """
    if load.declaration.transform is not None:
        return [], 0
    while True:
        covered = _read_covered(source, load, range_)
        found = _compare_with_log(source, load, covered)
        if _read_covered(source, load, range_) == covered:
            return found


def _compare_with_log(source: LogSource, load: Load, ranges: Sequence[Range]) -> tuple[list[Difference], int]:
    differences, count = [], 0
    for range_ in ranges:
        found, found_count = locate_differences(source.settings, load, range_, compacted=source.compacted)
        differences += found
        count += found_count
    return differences, count


def _read_load(source: LogSource, load_id: int) -> Load:
    with open_ledger(source.settings.db) as connection:
        return read_load(connection, load_id)


def _read_covered(source: LogSource, load: Load, range_: Range) -> list[Range]:
    """Read the parts of a range that its load still covers with rows: others may be replaced, or past their time."""
    with open_ledger(source.settings.db) as connection:
        covered = read_covered_by_load(connection, load.load_id, range_.partition)
    return intersect_ranges([range_], covered)


def _find_readable(source: LogSource, fault: Fault) -> Range | None:
    """Find the part of a fault's range that the log still holds."""
    range_ = fault.range
    if range_ is None or not source.same_topic or fault.generation != source.generation:
        return None
    log = source.log.partitions.get(range_.partition)
    if log is None or log.start >= range_.until_offset:
        return None
    return Range(range_.partition, max(log.start, range_.from_offset), range_.until_offset)


def _make_faults(fault: Fault, differences: Sequence[Difference], count: int) -> list[Fault]:
    """Make a fault for each difference, and one more if there are too many to list."""
    if fault.range is None:
        return []
    faults = [
        Fault(
            "quarantine" if each.quarantined else FAULT_KINDS[each.kind],
            (QUARANTINE_MESSAGES if each.quarantined else ROW_MESSAGES)[each.kind],
            Range(fault.range.partition, each.offset, each.offset + 1),
            fault.load,
            fault.generation,
        )
        for each in differences
    ]
    if count > len(differences):
        message = f"{count} offsets differ from the log; the first {len(differences)} are listed."
        faults.append(Fault(fault.kind, message, fault.range, fault.load, fault.generation))
    return faults
