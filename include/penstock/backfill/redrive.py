"""A redrive: quarantined records are decoded and judged again by today's declaration, and published if they pass.

Records that do not pass stay as they are. To find them, the chosen records are staged as a load. If some do not pass,
that load is discarded, and the others are staged as a load of their own: its plan has exactly the records that pass.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from penstock import advice
from penstock.errors import FencedError, HeldError, PenstockError, WrongUseError
from penstock.ledger.connection import concerning, open_ledger
from penstock.ledger.event import record_event
from penstock.ledger.generation import read_newest_generation
from penstock.ledger.incident import end_load_incidents
from penstock.ledger.load import OpenLoad, create_load, discard_load, fail_load, read_load, supersede_load
from penstock.ledger.pipeline import lock_pipeline, register_pipeline
from penstock.ledger.redrive import (
    choose_records,
    count_rejected,
    find_failed_redrives,
    find_open_redrives,
    forget_copies,
    list_passing,
    plan_records,
)
from penstock.ledger.work_lock import working_on
from penstock.lineage.emit import emit_lineage
from penstock.load.failure import KNOWN_OTHERWISE, see_failure
from penstock.load.publish import publish_load, sweep_old_attempts
from penstock.load.redrive import stage_records
from penstock.load.run import name_run
from penstock.load.validate import validate_load
from penstock.model.load import OPEN_STATES, LoadState
from penstock.model.ranges import Range
from penstock.quality.rules import apply_rules
from penstock.target.postgres.attempt import attempt_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.ledger.quarantine import Selection
    from penstock.ledger.redrive import ChosenRecord
    from penstock.settings import Settings

    Rejected = Counter[tuple[str, str | None]]

log = logging.getLogger(__name__)

# The publish counts the rows between the records of a load again, and each run of offsets is a range of its plan.
MOST_RECORDS, MOST_RANGES = 10_000, 500
REPLACED = "a later redrive replaces it"


@dataclass(slots=True)
class Redriven:
    """The outcome of a redrive: the chosen records, those that pass, and the others by reason and rule.

    A chosen record may leave the quarantine before the redrive reads it: then it is in neither of them.
    """

    chosen: int = 0
    passing: int = 0
    rejected: Rejected = field(default_factory=Counter)
    loads: list[int] = field(default_factory=list)

    @property
    def left(self) -> int:
        """The chosen records that left the quarantine before the redrive read them."""
        return self.chosen - self.passing - self.rejected.total()

    def describe(self, pipeline: str, *, dry_run: bool) -> list[str]:
        """Lines for a person: the records that pass, and the others by reason."""
        would = "would pass" if dry_run else "are published"
        lines = [f"{pipeline}: {self.passing} of {self.chosen} records {would}."]
        for (reason, rule), records in self.rejected.items():
            lines.append(f"  {records} do not pass: {reason}{f' {rule}' if rule else ''}")
        if self.left:
            lines.append(
                f"  {self.left} have left the quarantine meanwhile: dropped, or brought back by another redrive"
            )
        return lines


@dataclass(frozen=True, slots=True)
class _Decision:
    """The person who brings records back, and the reason, if there is one."""

    who: str
    why: str | None


def redrive(
    settings: Settings,
    pipeline: Pipeline,
    selection: Selection,
    who: str,
    report: Callable[[str], None],
    *,
    why: str | None = None,
    dry_run: bool = False,
) -> Redriven:
    """Publish the selected records that pass today's declaration, rules and checks; a dry run only counts them."""
    if pipeline.transform is not None:
        raise WrongUseError(
            f"the transform {pipeline.transform} makes the rows of this pipeline, and a redrive runs without Spark.",
            pipeline=pipeline.name,
            next_step=advice.replace_range(pipeline.name),
        )
    outcome, decision = Redriven(), _Decision(who, why)
    last = None
    while records := _choose(settings.db, selection, last):
        last = records[-1]
        outcome.chosen += len(records)
        _redrive(settings, pipeline, records, decision, report, outcome, dry_run=dry_run)
    if not outcome.chosen:
        raise WrongUseError(
            f"{selection.describe_none()}; nothing is changed.",
            pipeline=pipeline.name,
            next_step=advice.list_quarantine(pipeline.name),
        )
    return outcome


def _choose(db: str, selection: Selection, last: ChosenRecord | None) -> list[ChosenRecord]:
    """Choose the records of the next load: it ends where its plan would have too many ranges."""
    with open_ledger(db) as connection:
        records = choose_records(connection, selection, MOST_RECORDS, last)
    runs = 0
    before: ChosenRecord | None = None
    for count, record in enumerate(records):
        runs += before is None or record.place != (before.partition, before.offset + 1)
        if runs > MOST_RANGES:
            return records[:count]
        before = record
    return records


def _redrive(
    settings: Settings,
    pipeline: Pipeline,
    records: list[ChosenRecord],
    decision: _Decision,
    report: Callable[[str], None],
    outcome: Redriven,
    *,
    dry_run: bool,
) -> None:
    load_id = _plan(settings.db, pipeline, records, decision.who)
    with _working(settings.db, pipeline.name, load_id, dry_run=dry_run):
        passing = _judge(settings, load_id, records, outcome)
        outcome.passing += len(passing)
        if passing == records and not dry_run:
            outcome.loads.append(_publish(settings, load_id, decision, report))
            return
        why = "a dry run" if dry_run else f"{len(records) - len(passing)} of its {len(records)} records do not pass"
        _discard(settings.db, load_id, why)
    if passing and not dry_run:
        load_id = _plan(settings.db, pipeline, passing, decision.who)
        with _working(settings.db, pipeline.name, load_id):
            stage_records(settings, load_id)
            outcome.loads.append(_publish(settings, load_id, decision, report))


@contextmanager
def _working(db: str, pipeline: str, load_id: int, *, dry_run: bool = False) -> Iterator[None]:
    """Work on a redrive. One that fails ends with this run, because no later run continues it; a held one waits."""
    try:
        with concerning(pipeline, load_id), working_on(db, load_id):
            yield
    except HeldError:
        raise
    except PenstockError as error:
        try:
            _end(db, load_id, error, dry_run=dry_run)
        except (psycopg.Error, PenstockError) as refused:  # the error that is raised is the more important one
            log.warning("load %d stays until the next redrive discards it: %s", load_id, type(refused).__name__)
        raise


def _end(db: str, load_id: int, error: PenstockError, *, dry_run: bool) -> None:
    """End an open redrive as superseded if another process took its records, otherwise as failed.

    The person who started a dry run reads the error, so only the failure of another redrive is an incident.
    """
    with open_ledger(db) as connection:
        lock_pipeline(connection, read_load(connection, load_id).pipeline)
        load = read_load(connection, load_id)
        if load.state not in OPEN_STATES or load.state == LoadState.HELD:
            return
        forget_copies(connection, load_id)
        if isinstance(error, FencedError):
            open_load = OpenLoad(load_id, load.state, None, None, load.run_id)
            supersede_load(connection, load.declaration, open_load, "penstock", error.what)
        else:
            fail_load(connection, load, error.what)
            if not dry_run and not isinstance(error, KNOWN_OTHERWISE):
                see_failure(connection, load.declaration, load, error)
        connection.commit()
        sweep_old_attempts(connection, read_load(connection, load_id))


def _plan(db: str, pipeline: Pipeline, records: Sequence[ChosenRecord], who: str) -> int:
    """Plan a load of records. A redrive whose process died is discarded: its records are still in the quarantine."""
    with open_ledger(db) as connection:
        pipeline_id = register_pipeline(connection, pipeline)
        for open_id in find_open_redrives(connection, pipeline_id):
            _discard_in(connection, open_id, REPLACED)
        for failed_id in find_failed_redrives(connection, pipeline.name):
            end_load_incidents(connection, pipeline.name, failed_id, "penstock", REPLACED)
        generation = read_newest_generation(connection, pipeline_id)
        if generation is None:  # a chosen record has a generation
            raise WrongUseError("the pipeline has loaded nothing yet.", pipeline=pipeline.name)
        ranges = join_records(records)
        load = create_load(
            connection, pipeline_id, generation.generation_id, pipeline, f"redrive__{name_run()}", ranges, "redrive"
        )
        plan_records(connection, load.load_id, records)
        record_event(connection, who, load, "redrive planned", f"{len(records)} records")
    return load.load_id


def join_records(records: Sequence[ChosenRecord]) -> list[Range]:
    """Join the offsets of records to ranges that hold no other offset."""
    ranges: list[Range] = []
    for partition, offset in sorted(record.place for record in records):
        if ranges and (ranges[-1].partition, ranges[-1].until_offset) == (partition, offset):
            ranges[-1] = Range(partition, ranges[-1].from_offset, offset + 1)
        else:
            ranges.append(Range(partition, offset, offset + 1))
    return ranges


def _judge(settings: Settings, load_id: int, records: Sequence[ChosenRecord], outcome: Redriven) -> list[ChosenRecord]:
    """Stage records and apply the rules; the records that are still rows pass."""
    stage_records(settings, load_id)
    with open_ledger(settings.db) as connection:
        load = read_load(connection, load_id)
    apply_rules(settings.db, settings.kafka, load, settings.db_checker)
    with open_ledger(settings.db) as connection:
        places = list_passing(connection, attempt_table(load.load_id, load.attempt))
        for each in count_rejected(connection, load):
            outcome.rejected[each["reason"], each["rule"]] += each["records"]
    return [record for record in records if record.place in places]


def _publish(settings: Settings, load_id: int, decision: _Decision, report: Callable[[str], None]) -> int:
    verdict = validate_load(settings.db, load_id, settings.db_checker, settings.kafka)
    if not verdict.passed:
        raise HeldError(
            f"held: {verdict.cause}",
            pipeline=verdict.load.pipeline,
            load=load_id,
            next_step=advice.settle_redrive(load_id),
        )
    published = publish_load(settings.db, settings.kafka, load_id)
    with open_ledger(settings.db) as connection:
        record_event(connection, decision.who, published.load, "redriven", decision.why)
    report(published.message)
    emit_lineage(settings, load_id)
    return load_id


def _discard(db: str, load_id: int, why: str) -> None:
    with open_ledger(db) as connection:
        lock_pipeline(connection, read_load(connection, load_id).pipeline)
        _discard_in(connection, load_id, why)
        connection.commit()
        sweep_old_attempts(connection, read_load(connection, load_id))


def _discard_in(connection: Connection, load_id: int, why: str) -> None:
    load = read_load(connection, load_id)
    forget_copies(connection, load_id)
    if discard_load(connection, load):
        record_event(connection, "penstock", load, LoadState.DISCARDED, why)
        end_load_incidents(connection, load.pipeline, load_id, "penstock", why)
