"""Verification: the ledger adds up, the table holds what was published, and the log what was loaded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from penstock import advice
from penstock.holes.examination import count_holes, name_holes
from penstock.holes.stretches import find_generation
from penstock.kafka.admin import read_log, read_topic_config
from penstock.ledger import verification
from penstock.ledger.connection import open_ledger
from penstock.ledger.verification import FaultRow
from penstock.model.ranges import Range
from penstock.records.fingerprint import LogFingerprint
from penstock.verify.chunks import choose_share, find_cut, find_held, make_staged
from penstock.verify.faults import Fault
from penstock.verify.findings import ANOTHER_VALUE, Looking, judge_chunk, judge_rows, locate_faults
from penstock.verify.ledger_sums import find_ledger_faults
from penstock.verify.rebuilt_rows import RowSum
from penstock.verify.reread import reread_natively
from penstock.verify.row_counts import count_loads, find_lacking, find_orphans, read_held

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.settings import Settings
    from penstock.verify.chunks import Staged

    # Reads the chunks of a verification with Spark; how Spark is started is the caller's.
    ReadWithSpark = Callable[[Settings, int], None]


OTHER_TOPIC = "the topic is not the one that was loaded; its log was not read."


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification looked at, and what it found."""

    verification_id: int
    pipeline: str
    ranges: int
    rows: int
    chunks: int  # staged ones that are published
    chunks_held: int  # of them, those that the log still holds and that have a fingerprint
    chunks_reread: int
    rows_compared: int  # with their records, in the chunks that were read again
    holes: Mapping[str, int]  # by kind
    faults: tuple[Fault, ...]
    generation: int  # of the topic that is loaded now

    @property
    def next_steps(self) -> list[str]:
        """What a person can do about the faults; nothing if there are none."""
        stored = [fault for fault in self.faults if fault.told.endswith(ANOTHER_VALUE)]
        steps = [advice.FIND_WHO_CHANGED_ROWS] if len(stored) < len(self.faults) else []
        if stored:
            steps.append(advice.COMPARE_ROWS)
        now = [fault for fault in self.faults if fault.range and fault.generation == self.generation]
        if any(fault.kind not in ("rows_outside", "hole") for fault in now):
            steps.append(advice.replace_range(self.pipeline))
        if any(fault.generation not in (None, self.generation) for fault in self.faults):
            steps.append(advice.RESTORE_EARLIER_GENERATION)
        if any(fault.kind == "rows_outside" for fault in self.faults):
            steps.append(advice.DELETE_ROWS_OUTSIDE)
        if any(fault.told == OTHER_TOPIC for fault in self.faults):
            steps.append(advice.preview_adoption(self.pipeline))
        return steps

    @property
    def told(self) -> str:
        """All of it in one line."""
        found = f"{len(self.faults)} faults" if self.faults else "no fault"
        holes = ", ".join(f"{count} {kind}" for kind, count in self.holes.items())
        return (
            f"{self.pipeline}: {found}; {self.rows} rows in {self.ranges} ranges counted; of {self.chunks} chunks the "
            f"log still holds {self.chunks_held}, {self.chunks_reread} of them were read again, and "
            f"{self.rows_compared} rows were compared with their records. "
            f"Holes: {holes or 'none'}."
        )


@dataclass(frozen=True, slots=True)
class Reread:
    """A chunk that was read again: its log, the rows that its records give, and those that the target holds of it."""

    log: LogFingerprint
    rows: RowSum
    held: RowSum | None  # None if they are not compared


def verify_pipeline(
    settings: Settings, pipeline: Pipeline, actor: str, share: float, read_with_spark: ReadWithSpark
) -> Verified | None:
    """Verify a pipeline; a share of what the log still holds is read again by the reader that did not load it.

    None comes back for a pipeline that has loaded nothing yet.
    """
    looking = _begin(settings, pipeline, actor, share)
    if looking is None:
        return None
    with open_ledger(settings.db) as connection:
        looking.faults += find_ledger_faults(connection, pipeline.name)
    lacking = find_lacking(settings.db, pipeline.name)
    looking.faults += lacking
    if not lacking:
        _look_at_rows(looking)
    _look_at_log(looking, share, read_with_spark, compare=not lacking)
    if not lacking:
        _look_at_holes(looking)
    return _end(looking)


def _begin(settings: Settings, pipeline: Pipeline, actor: str, share: float) -> Looking | None:
    with open_ledger(settings.db) as connection:
        known = find_generation(connection, pipeline.name)
        if known is None:
            return None
        verification_id = verification.begin_verification(connection, pipeline.name, actor, share)
    log = read_log(settings.kafka, pipeline.topic, pipeline.isolation)
    same = log.identity == known.identity
    compacted = "compact" in read_topic_config(settings.kafka, pipeline.topic).get("cleanup.policy", "")
    looking = Looking(settings, pipeline, verification_id, log, known.generation_id, compacted, same_topic=same)
    if not same:
        looking.faults.append(Fault("log_changed", OTHER_TOPIC))
    return looking


def _look_at_rows(looking: Looking) -> None:
    for counted, faults in count_loads(looking.settings.db, looking.pipeline.name):
        looking.counts["ranges"] += sum(not each.stray for each in counted)
        looking.counts["rows"] += sum(each.found for each in counted)
        looking.faults += [fault for fault in faults if fault.kind == "rows_outside"]
        within = sorted((fault for fault in faults if fault.kind != "rows_outside"), key=_name_place)
        for _, together in groupby(within, key=_name_place):
            looking.faults += locate_faults(looking, list(together))
    looking.faults += find_orphans(looking.settings.db, looking.pipeline.name, looking.pipeline.target)


def _name_place(fault: Fault) -> tuple[int, int]:
    return fault.load or 0, fault.range.partition if fault.range else -1


def _look_at_log(looking: Looking, share: float, read_with_spark: ReadWithSpark, *, compare: bool) -> None:
    with open_ledger(looking.settings.db) as connection:
        chunks = [make_staged(row) for row in verification.find_chunks(connection, looking.pipeline.name)]
    partitions = looking.log.partitions if looking.same_topic else {}
    held = find_held(chunks, partitions)
    if looking.same_topic:
        cut = "the log ends before it: it was cut after this was loaded."
        looking.faults += [Fault("log_changed", cut, range_) for range_ in find_cut(chunks, partitions)]
    chosen = choose_share(held, share, looking.verification_id)
    looking.counts.update(chunks=len(chunks), chunks_held=len(held), chunks_reread=len(chosen))
    for chunk, seen in zip(chosen, _read_again(looking, chosen, read_with_spark, compare=compare), strict=True):
        if (seen.log.records, seen.log.hash) != (chunk.records, chunk.log_hash):
            looking.faults += judge_chunk(looking, chunk, seen.log)
        elif seen.held is not None:
            looking.counts["rows_compared"] += seen.rows.rows
            if seen.rows != seen.held:
                looking.faults += judge_rows(looking, chunk)


def _look_at_holes(looking: Looking) -> None:
    if not looking.same_topic:
        return
    named = name_holes(looking.settings.db, looking.settings.kafka, looking.pipeline)
    looking.faults += [
        Fault(
            "hole",
            f"no row, and nothing explains it: {hole.why}.",
            Range(hole.partition, hole.from_offset, hole.until_offset),
            hole.load_id,
            looking.generation,
        )
        for hole in named.unexplained
    ]


def _read_again(
    looking: Looking, chosen: Sequence[Staged], read_with_spark: ReadWithSpark, *, compare: bool
) -> list[Reread]:
    """Read chunks, each by the reader that did not load it."""
    db, verification_id = looking.settings.db, looking.verification_id
    with open_ledger(db) as connection:
        requested = [(chunk.load, chunk.attempt, chunk.task) for chunk in chosen]
        verification.request_chunks(connection, verification_id, requested, compare=compare)
    if any(chunk.reader == "spark" for chunk in chosen):
        reread_natively(looking.settings, verification_id)
    if any(chunk.reader == "native" for chunk in chosen):
        read_with_spark(looking.settings, verification_id)
    with open_ledger(db) as connection:
        held = read_held(connection, verification_id)
        rows = verification.take_reread(connection, verification_id)
    found = {
        (row.load_id, row.task): Reread(
            LogFingerprint(row.records, row.log_hash),
            RowSum(row.rows, row.row_hash),
            held.get((row.load_id, row.task)),
        )
        for row in rows
    }
    return [found[chunk.load, chunk.task] for chunk in chosen]


def _end(looking: Looking) -> Verified:
    names = ("ranges", "rows", "chunks", "chunks_held", "chunks_reread", "rows_compared")
    counts = {name: looking.counts[name] for name in names}
    with open_ledger(looking.settings.db) as connection:
        holes: Counter[str] = Counter()
        for row in count_holes(connection, looking.pipeline.name):
            holes[row["kind"]] += row["holes"]
        verified = Verified(
            looking.verification_id,
            looking.pipeline.name,
            holes=holes,
            faults=tuple(looking.faults),
            generation=looking.generation,
            **counts,
        )
        faults = [_make_row(fault) for fault in verified.faults]
        verification.end_verification(connection, looking.verification_id, counts, faults)
    return verified


def _make_row(fault: Fault) -> FaultRow:
    range_ = fault.range
    return FaultRow(
        fault.kind,
        fault.generation,
        fault.load,
        range_.partition if range_ else None,
        range_.from_offset if range_ else None,
        range_.until_offset if range_ else None,
        fault.told,
    )
