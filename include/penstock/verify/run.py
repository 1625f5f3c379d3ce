"""A verification: it compares the ledger, the table and the log of a pipeline."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import MOST_NAMED
from penstock.holes.examination import name_holes
from penstock.kafka.admin import read_log, read_topic_config
from penstock.ledger.connection import open_ledger
from penstock.ledger.dropped import count_dropped, find_dropped
from penstock.ledger.generation import read_newest_generation_of
from penstock.ledger.hole import sum_holes
from penstock.ledger.incident import end_incidents, see_incident
from penstock.ledger.pipeline import find_pipeline
from penstock.ledger.result import read_results
from penstock.ledger.status import read_pipelines
from penstock.ledger.verification import (
    ALL_LOADS,
    FaultRow,
    begin_verification,
    count_again,
    count_chunks,
    end_verification,
    find_chunks,
    find_leaves,
    mark_counted,
    request_chunks,
    take_reread,
)
from penstock.load.results.proof import begin_proof, find_result_faults
from penstock.model.incident import IncidentKind, Sighting
from penstock.model.ranges import Range
from penstock.records.fingerprint import LogFingerprint
from penstock.target.base import RowSum
from penstock.verify.chunks import choose_ranges, choose_share, find_chunks_in_log, find_truncated
from penstock.verify.faults import Fault
from penstock.verify.ledger_sums import find_ledger_faults
from penstock.verify.location import OTHER_VALUES, LogSource, locate_faults, locate_log_change, locate_other_rows
from penstock.verify.reread import reread_natively
from penstock.verify.row_counts import count_loads, find_missing_columns, find_orphans, sum_target_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.ledger.verification import CountedLeaf, StagedChunk
    from penstock.settings import Settings
    from penstock.verify.rotation import Rotation

    # Reads the chunks of a verification with Spark. The caller starts Spark.
    ReadWithSpark = Callable[[Settings, int], None]


OTHER_TOPIC = "the topic is not the loaded topic; its log was not read."
TRUNCATED = "the log was truncated: it ends before these offsets, which were loaded."

DROPPED = "The rows of {} loads were dropped (keep_rows_days)."
TRANSFORMED = (
    "Rows of the transform {} are compared with the fingerprint of their load, and the log with its own; "
    "they are not made again from their records."
)


@dataclass(frozen=True, slots=True)
class Verified:
    """The counts and the faults of a verification."""

    verification_id: int
    pipeline: str
    ranges: int
    rows: int
    chunks: int  # staged chunks that are published
    chunks_held: int  # chunks with a fingerprint that the log still holds
    chunks_reread: int
    rows_compared: int  # rows that were compared with their records
    holes: Mapping[str, int]  # by kind
    faults: tuple[Fault, ...]
    generation: int  # the generation that is loaded now
    loads_skipped: int = 0  # loads that an earlier verification has counted, within the days of the rotation
    loads_dropped: int = 0  # loads whose rows are past keep_rows_days: their coverage is the proof that is left
    faulty_dropped: frozenset[int] = frozenset()  # those with a fault; they cannot be replaced
    transform: str | None = None

    @property
    def next_steps(self) -> list[str]:
        """The steps by which a person can fix the faults."""
        stored = [fault for fault in self.faults if fault.message.endswith(OTHER_VALUES)]
        rows = [fault for fault in self.faults if fault.kind != "result"]
        steps = [advice.FIND_WHO_CHANGED_ROWS] if len(stored) < len(rows) else []
        if stored:
            steps.append(advice.COMPARE_ROWS)
        now = [
            fault
            for fault in self.faults
            if fault.range and fault.generation == self.generation and fault.load not in self.faulty_dropped
        ]
        if any(fault.kind not in ("rows_outside", "hole") for fault in now):
            steps.append(advice.replace_range(self.pipeline))
        if any(fault.generation not in (None, self.generation) for fault in self.faults):
            steps.append(advice.RESTORE_EARLIER_GENERATION)
        if any(fault.kind == "rows_too_many" and fault.load in self.faulty_dropped for fault in self.faults):
            steps.append(advice.DELETE_ROWS_DROPPED)
        if any(fault.kind == "rows_outside" for fault in self.faults):
            steps.append(advice.DELETE_ROWS_OUTSIDE)
        if any(fault.kind == "result" for fault in self.faults):
            steps.append(advice.rebuild_result(self.pipeline))
        if any(fault.message == OTHER_TOPIC for fault in self.faults):
            steps.append(advice.preview_adoption(self.pipeline))
        return steps

    @property
    def summary(self) -> str:
        """The counts in one line."""
        found = f"{len(self.faults)} faults" if self.faults else "no fault"
        holes = ", ".join(f"{count} {kind}" for kind, count in self.holes.items())
        skipped = f" ({self.loads_skipped} loads were counted before)" if self.loads_skipped else ""
        transformed = f" {TRANSFORMED.format(self.transform)}" if self.transform else ""
        dropped = f" {DROPPED.format(self.loads_dropped)}" if self.loads_dropped else ""
        return (
            f"{self.pipeline}: {found}; {self.rows} rows in {self.ranges} ranges counted{skipped}; of {self.chunks} "
            f"chunks the log still holds {self.chunks_held}, {self.chunks_reread} of them were read again, and "
            f"{self.rows_compared} rows were compared with their records. "
            f"Holes: {holes or 'none'}.{dropped}{transformed}"
        )


@dataclass(frozen=True, slots=True)
class Reread:
    """A chunk that was read again: its log, the rows that its records give, and the rows of the target."""

    log: LogFingerprint
    rows: RowSum
    target: RowSum | None  # None if the rows are not compared


def verify_pipeline(
    settings: Settings,
    pipeline: Pipeline,
    actor: str,
    share: float,
    read_with_spark: ReadWithSpark,
    ranges: Sequence[Range] = (),
    rotation: Rotation | None = None,
) -> Verified | None:
    """Verify a pipeline; None if it has loaded nothing yet.

    A share of the chunks that the log still holds is read again, each by the reader that did not load it. With `ranges`
    these are only chunks that hold some of those offsets; the ledger and the rows of all loads are checked anyway.
    With a `rotation` the rows of new loads and of a share of the others are counted.
    """
    progress = _begin(settings, pipeline, actor, 0.0 if ranges else share)
    if progress is None:
        return None
    with open_ledger(settings.db) as connection:
        leaves = _choose_leaves(connection, progress, rotation)
        progress.faults.extend(find_ledger_faults(connection, pipeline.name, leaves))
    missing = find_missing_columns(settings.db, pipeline.name)
    progress.faults.extend(missing)
    if not missing:
        _check_rows(progress, leaves)
    _check_log(progress, share, ranges, read_with_spark, compare=not missing)
    if not missing:
        _check_holes(progress, None if rotation is None else sorted(progress.examined))
        _check_results(progress, share)
    return _end(progress, of_chosen=bool(ranges))


@dataclass(frozen=True, slots=True)
class _Progress:
    """A verification that is running: the faults and the counts so far."""

    settings: Settings
    pipeline: Pipeline
    verification_id: int
    source: LogSource
    faults: list[Fault] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    counted: set[int] = field(default_factory=set)  # the loads whose rows were counted
    # The loads whose rows were looked at, and those whose records the log still holds: their holes are looked at too.
    examined: set[int] = field(default_factory=set)


def _begin(settings: Settings, pipeline: Pipeline, actor: str, share: float) -> _Progress | None:
    with open_ledger(settings.db) as connection:
        known = read_newest_generation_of(connection, pipeline.name)
        if known is None:
            return None
        verification_id = begin_verification(connection, pipeline.name, actor, share)
    log = read_log(settings.kafka, pipeline.topic, pipeline.isolation)
    same = log.identity == known.identity
    compacted = "compact" in read_topic_config(settings.kafka, pipeline.topic).get("cleanup.policy", "")
    source = LogSource(settings, log, known.generation_id, compacted, same)
    progress = _Progress(settings, pipeline, verification_id, source)
    if not same:
        progress.faults.append(Fault("log_changed", OTHER_TOPIC))
    return progress


def _choose_leaves(connection: Connection, progress: _Progress, rotation: Rotation | None) -> Sequence[CountedLeaf]:
    """Choose the leaves whose loads are counted."""
    if rotation is None:
        return ALL_LOADS
    leaves = find_leaves(connection, progress.pipeline.name)
    chosen = rotation.choose(leaves, datetime.now(UTC))
    progress.counts["loads_skipped"] = sum(leaf.loads for leaf in leaves) - sum(leaf.loads for leaf in chosen)
    return chosen


def _check_rows(progress: _Progress, leaves: Sequence[CountedLeaf]) -> None:
    counted_loads: set[int] = set()
    for counted, faults in count_loads(progress.settings.db, progress.pipeline.name, leaves):
        counted_loads.update(each.load_id for each in counted)
        progress.counts["ranges"] += sum(not each.stray for each in counted)
        progress.counts["rows"] += sum(each.found for each in counted)
        progress.faults.extend(fault for fault in faults if fault.kind == "rows_outside")
        within = sorted((fault for fault in faults if fault.kind != "rows_outside"), key=_name_place)
        for _, together in groupby(within, key=_name_place):
            progress.faults.extend(locate_faults(progress.source, list(together)))
    orphans = find_orphans(progress.settings.db, progress.pipeline.name, progress.pipeline.target, leaves)
    progress.faults.extend(orphans)
    progress.examined.update(counted_loads)
    if not orphans:
        progress.counted.update(counted_loads)


def _name_place(fault: Fault) -> tuple[int, int]:
    return fault.load or 0, fault.range.partition if fault.range else -1


def _check_log(
    progress: _Progress, share: float, ranges: Sequence[Range], read_with_spark: ReadWithSpark, *, compare: bool
) -> None:
    source, faults = progress.source, progress.faults
    partitions = source.log.partitions if source.same_topic else {}
    starts = {number: partition.start for number, partition in partitions.items()}
    with open_ledger(progress.settings.db) as connection:
        # Without the topic no chunk can be compared.
        chunks = find_chunks(connection, progress.pipeline.name, starts) if source.same_topic else []
        total = count_chunks(connection, progress.pipeline.name)
    in_log = find_chunks_in_log(chunks, partitions)
    progress.examined.update(chunk.load_id for chunk in chunks)
    if source.same_topic:
        faults += [Fault("log_changed", TRUNCATED, range_) for range_ in find_truncated(chunks, partitions)]
    chosen = choose_share(choose_ranges(in_log, ranges), share, progress.verification_id)
    progress.counts.update(chunks=total, chunks_held=len(in_log), chunks_reread=len(chosen))
    for chunk, reread in zip(chosen, _read_again(progress, chosen, read_with_spark, compare=compare), strict=True):
        if (reread.log.records, reread.log.hash) != (chunk.records, chunk.log_hash):
            faults += locate_log_change(source, chunk, reread.log, faults)
        elif reread.target is not None:
            progress.counts["rows_compared"] += reread.rows.rows
            if reread.rows != reread.target:
                faults += locate_other_rows(source, chunk, faults)


def _check_holes(progress: _Progress, again: list[int] | None) -> None:
    if not progress.source.same_topic:
        return
    named = name_holes(progress.settings.db, progress.settings.kafka, progress.pipeline, again)
    progress.faults.extend(
        Fault(
            "hole",
            f"unexplained hole: {hole.why}.",
            Range(hole.partition, hole.from_offset, hole.until_offset),
            hole.load_id,
            progress.source.generation,
        )
        for hole in named.unexplained
    )


def _check_results(progress: _Progress, share: float) -> None:
    with open_ledger(progress.settings.db) as connection:
        pipeline_id = find_pipeline(connection, progress.pipeline.name)
        if pipeline_id is None or not read_results(connection, pipeline_id):
            return
        connection.commit()
        begin_proof(connection, progress.pipeline.target)
        faults = find_result_faults(connection, pipeline_id, progress.pipeline.target, share)
        connection.rollback()
    progress.faults.extend(Fault("result", f"result {each.table}: {each.message}.") for each in faults)


def _read_again(
    progress: _Progress, chosen: Sequence[StagedChunk], read_with_spark: ReadWithSpark, *, compare: bool
) -> list[Reread]:
    """Read chunks, each by the reader that did not load it."""
    db, verification_id = progress.settings.db, progress.verification_id
    with open_ledger(db) as connection:
        requested = [(chunk.load_id, chunk.attempt, chunk.task) for chunk in chosen]
        request_chunks(connection, verification_id, requested, compare=compare)
    if any(chunk.reader == "spark" for chunk in chosen):
        reread_natively(progress.settings, verification_id)
    if any(chunk.reader == "native" for chunk in chosen):
        read_with_spark(progress.settings, verification_id)
    with open_ledger(db) as connection:
        target_sums = sum_target_rows(connection, verification_id)
        rows = take_reread(connection, verification_id)
    rereads = {
        (row.load_id, row.task): Reread(
            LogFingerprint(row.records, row.log_hash),
            RowSum(row.rows, row.row_hash),
            target_sums.get((row.load_id, row.task)),
        )
        for row in rows
    }
    return [rereads[chunk.load_id, chunk.task] for chunk in chosen]


def _end(progress: _Progress, *, of_chosen: bool) -> Verified:
    names = ("ranges", "rows", "chunks", "chunks_held", "chunks_reread", "rows_compared", "loads_skipped")
    counts = {name: progress.counts[name] for name in names}
    with open_ledger(progress.settings.db) as connection:
        verified = Verified(
            progress.verification_id,
            progress.pipeline.name,
            holes=sum_holes(connection, progress.pipeline.name, progress.source.generation),
            faults=tuple(progress.faults),
            generation=progress.source.generation,
            faulty_dropped=find_dropped(
                connection, {fault.load for fault in progress.faults if fault.load is not None}
            ),
            loads_dropped=count_dropped(connection, find_pipeline(connection, progress.pipeline.name) or 0),
            transform=progress.pipeline.transform,
            **counts,
        )
        faults = [_make_row(fault) for fault in verified.faults]
        share = counts["chunks_reread"] / max(1, counts["chunks_held"]) if of_chosen else None
        end_verification(connection, progress.verification_id, counts, faults, share)
        _see_faults(connection, progress.pipeline, verified)
        # The faults stay, also if a load of them is locked for too long.
        connection.commit()
        _remember_counted(connection, progress)
    return verified


def _remember_counted(connection: Connection, progress: _Progress) -> None:
    """A load with a fault is counted again by each verification, so its fault is not forgotten."""
    faulty = {fault.load for fault in progress.faults if fault.load is not None}
    mark_counted(connection, progress.verification_id, sorted(progress.counted - faulty))
    count_again(connection, progress.pipeline.name, [(load, load + 1) for load in sorted(faulty)])


def _see_faults(connection: Connection, pipeline: Pipeline, verified: Verified) -> None:
    """Record the faults as one incident; it ends when the pipeline has no known fault."""
    if verified.faults:
        sighting = Sighting(
            pipeline.name,
            IncidentKind.FAILED_VERIFICATION,
            IncidentKind.FAILED_VERIFICATION,
            f"{verified.summary} The first: {verified.faults[0]}",
            f"see penstock.faults, and {' '.join(verified.next_steps)}",
            ranges=tuple(fault.range for fault in verified.faults[:MOST_NAMED] if fault.range),
        )
        see_incident(connection, sighting, pipeline.alerts)
    elif not any(row.faults for row in read_pipelines(connection, [pipeline.name])):
        why = f"verification {verified.verification_id} found no fault"
        end_incidents(connection, pipeline.name, [IncidentKind.FAILED_VERIFICATION], None, by="penstock", why=why)


def _make_row(fault: Fault) -> FaultRow:
    range_ = fault.range
    return FaultRow(
        fault.kind,
        fault.generation,
        fault.load,
        range_.partition if range_ else None,
        range_.from_offset if range_ else None,
        range_.until_offset if range_ else None,
        fault.message,
    )
