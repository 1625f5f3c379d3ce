"""What a verification knows while it looks, and how what it finds is located: to the offset, where the log holds it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from penstock.ledger.connection import open_ledger
from penstock.ledger.coverage import read_covered_by_load
from penstock.ledger.load import read_load
from penstock.model.ranges import Range, intersect_ranges
from penstock.verify.faults import Fault
from penstock.verify.location import locate_differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.model.load import Load
    from penstock.model.log import TopicLog
    from penstock.records.fingerprint import LogFingerprint
    from penstock.settings import Settings
    from penstock.verify.chunks import Staged
    from penstock.verify.faults import FaultKind
    from penstock.verify.location import Difference

NOT_ITS_FINGERPRINT = (
    "the rows are those that the log gives, and the ledger has another fingerprint of them: rows of the load had been "
    "changed when others of it were replaced, or the ledger was changed. Replacing the range takes it anew."
)
ANOTHER_VALUE = (
    "The records are those that were loaded: the rows were stored wrongly then, or by other rules than those of this "
    "version, or were changed since."
)
KINDS: dict[str, FaultKind] = {"changed": "rows_changed", "missing": "rows_missing", "too many": "rows_too_many"}


@dataclass(slots=True)
class Looking:
    """A verification under way."""

    settings: Settings
    pipeline: Pipeline
    verification_id: int
    log: TopicLog
    generation: int
    compacted: bool
    same_topic: bool
    faults: list[Fault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def judge_chunk(looking: Looking, chunk: Staged, found: LogFingerprint) -> list[Fault]:
    """A chunk whose log is not what it was: what changed in it.

    Of a compacted log with fewer records only those it has can be judged; what the rows have told is not told again.
    """
    load = _read(looking, chunk.load)
    differences, count = _compare_covered(looking, load, chunk.range)
    told = f"the log gives {found.records} records, not the {chunk.records} that were loaded, or others."
    if not differences:
        told += " The native reader, asked again, gives what the table holds: the two readers do not agree."
    fault = Fault("log_changed", told, chunk.range, chunk.load, looking.generation)
    located = _tell_differences(fault, differences, count)
    if looking.compacted and found.records < chunk.records:
        return [each for each in located if each not in looking.faults]
    return [fault, *located]


def judge_rows(looking: Looking, chunk: Staged) -> list[Fault]:
    """A chunk whose records, decoded again, do not give the rows that the target holds: which of them.

    Offsets that the rows' own fingerprint has shown already are left out.
    """
    load = _read(looking, chunk.load)
    differences, count = _compare_covered(looking, load, chunk.range)
    known = {(fault.load, fault.range) for fault in looking.faults}
    fault = Fault("rows_changed", "", chunk.range, chunk.load, looking.generation)
    located = [
        replace(each, told=f"{each.told} {ANOTHER_VALUE}") for each in _tell_differences(fault, differences, count)
    ]
    return [each for each in located if (each.load, each.range) not in known]


def locate_faults(looking: Looking, faults: Sequence[Fault]) -> list[Fault]:
    """Find the very offsets of what is wrong with a load's ranges of one partition, as far as the log still holds them.

    Where nothing is found the log proves the rows right. What is wrong then lies in another of the ranges, or, if it is
    in none of them, in the ledger.
    """
    located: list[Fault] = []
    proven: list[Fault] = []
    left: list[Fault] = []
    for fault in faults:
        held = _find_held(looking, fault)
        if held is None or fault.load is None:
            left.append(fault)
            continue
        found = _tell_differences(fault, *_compare_with_log(looking, _read(looking, fault.load), [held]))
        located += found
        if not found:
            whole = fault.kind == "rows_changed" and held == fault.range and not looking.compacted
            (proven if whole else left).append(fault)
    if proven and not located and not left:
        return [replace(fault, kind="ledger", told=NOT_ITS_FINGERPRINT) for fault in proven]
    return [*dict.fromkeys(located), *left]


def _compare_covered(looking: Looking, load: Load, range_: Range) -> tuple[list[Difference], int]:
    """Where a range differs from the log in what its load covers, which no replay or rollback changes meanwhile."""
    while True:
        covered = _read_covered(looking, load, range_)
        found = _compare_with_log(looking, load, covered)
        if _read_covered(looking, load, range_) == covered:
            return found


def _compare_with_log(looking: Looking, load: Load, ranges: Sequence[Range]) -> tuple[list[Difference], int]:
    """Where ranges differ from the log."""
    differences, count = [], 0
    for range_ in ranges:
        found, of_all = locate_differences(looking.settings, load, range_, compacted=looking.compacted)
        differences += found
        count += of_all
    return differences, count


def _read(looking: Looking, load_id: int) -> Load:
    with open_ledger(looking.settings.db) as connection:
        return read_load(connection, load_id)


def _read_covered(looking: Looking, load: Load, range_: Range) -> list[Range]:
    """What of a range its load still covers: another load may have replaced the rest."""
    with open_ledger(looking.settings.db) as connection:
        covered = read_covered_by_load(connection, load.load_id, range_.partition)
    return intersect_ranges([range_], covered)


def _find_held(looking: Looking, fault: Fault) -> Range | None:
    """What the log still holds of a range that is not as it was."""
    range_ = fault.range
    if range_ is None or not looking.same_topic or fault.generation != looking.generation:
        return None
    log = looking.log.partitions.get(range_.partition)
    if log is None or log.start >= range_.until_offset:
        return None
    return Range(range_.partition, max(log.start, range_.from_offset), range_.until_offset)


def _tell_differences(fault: Fault, differences: Sequence[Difference], count: int) -> list[Fault]:
    """A fault for each offset; of very many, the first."""
    if fault.range is None:
        return []
    faults = [
        Fault(
            "quarantine" if each.quarantined else KINDS[each.kind],
            f"the row is {each.kind}, compared with the log." if not each.quarantined else f"{each}.",
            Range(fault.range.partition, each.offset, each.offset + 1),
            fault.load,
            fault.generation,
        )
        for each in differences
    ]
    if count > len(differences):
        told = f"{count} offsets differ from the log; the first {len(differences)} are listed."
        faults.append(Fault(fault.kind, told, fault.range, fault.load, fault.generation))
    return faults
