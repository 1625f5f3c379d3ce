"""Rollback: one transaction takes a published load out of the target, and keeps its rows for an undo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import advice
from penstock.decide.settle import lock_with_reason
from penstock.errors import WrongUseError, name_ranges
from penstock.ledger.connection import open_ledger
from penstock.ledger.coverage import bring_back, set_aside
from penstock.ledger.dropped import refuse_dropped
from penstock.ledger.event import ROLLBACK_UNDONE, record_event
from penstock.ledger.load import read_load, reading_load, republish_load, republish_sources, roll_back_load
from penstock.ledger.redrive import give_back
from penstock.load.results.change import Change
from penstock.load.results.tables import list_updated, update_results
from penstock.model.load import LoadState
from penstock.target.postgres.leaves import kept_table
from penstock.target.registry import find_store

if TYPE_CHECKING:
    from typing import Never

    from penstock.ledger.connection import Connection
    from penstock.model.load import Load
    from penstock.model.ranges import Range


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The ranges that a rollback or its undo moved; no ranges if the load was in that state already."""

    load: Load
    ranges: tuple[Range, ...]
    message: str


def roll_back(uri: str, load_id: int, who: str, why: str) -> RolledBack:
    """Take a published load out: its ranges become gaps, its rows are kept. The positions stay."""
    with open_ledger(uri) as connection, reading_load(connection, load_id):
        return roll_back_in(connection, load_id, who, why)


def undo_rollback(uri: str, load_id: int, who: str, why: str) -> RolledBack:
    """Put a load that was rolled back into the target again."""
    with open_ledger(uri) as connection, reading_load(connection, load_id):
        return undo_rollback_in(connection, load_id, who, why)


def roll_back_in(connection: Connection, load_id: int, who: str, why: str) -> RolledBack:
    """Roll back in the caller's transaction."""
    load = lock_with_reason(connection, load_id, who, why)
    if load.state == LoadState.ROLLED_BACK:
        return RolledBack(load, (), f"{load.pipeline}: load {load_id} is rolled back already; nothing is changed.")
    if load.state != LoadState.PUBLISHED:
        _refuse(load, advice.DISCARD_INSTEAD)
    refuse_dropped(connection, load, [load_id])
    days = load.declaration.keep_rolled_back_days
    ranges = tuple(set_aside(connection, load))
    find_store(load.declaration).take_out(connection, load, ranges)
    removed = Change.removes(load, kept_table(load_id))
    update_results(connection, load, list_updated(connection, load.pipeline_id), removed)
    roll_back_load(connection, load, why, days)
    record_event(connection, who, load, LoadState.ROLLED_BACK, why)
    if load.kind == "redrive":
        return RolledBack(read_load(connection, load_id), ranges, _return_records(connection, load, ranges))
    gaps = name_ranges(ranges)
    message = f"{load.pipeline}: load {load_id} is rolled back; gaps now: {gaps}. Its rows are kept for {days} days."
    return RolledBack(read_load(connection, load_id), ranges, message)


def _return_records(connection: Connection, load: Load, ranges: tuple[Range, ...]) -> str:
    """Return the records of a redrive to the quarantine. A record whose load is rolled back leaves a gap meanwhile."""
    returned = give_back(connection, load)
    covered = [each for each in returned if each.is_covered]
    waiting = [each for each in returned if not each.is_covered]
    republish_sources(connection, [each.source_load for each in covered])
    back, kept = (sum(each.records for each in some) for some in (covered, waiting))
    lines = [f"{load.pipeline}: load {load.load_id} is rolled back; {back} records are in the quarantine again."]
    if kept:
        undo = " and ".join(f"`penstock rollback {each.source_load} --undo --why …`" for each in waiting)
        lines.append(f"{kept} offsets are gaps until {undo}: the load that quarantined them is rolled back too.")
    gaps = sum(map(len, ranges)) - back - kept
    if gaps:
        lines.append(f"{gaps} offsets are gaps now: the keeping time of their records or of their load is over.")
    return " ".join(lines)


def undo_rollback_in(connection: Connection, load_id: int, who: str, why: str) -> RolledBack:
    """Undo a rollback in the caller's transaction."""
    load = lock_with_reason(connection, load_id, who, why)
    if load.state == LoadState.PUBLISHED:
        return RolledBack(load, (), f"{load.pipeline}: load {load_id} is published already; nothing is changed.")
    if load.state != LoadState.ROLLED_BACK:
        _refuse(load, advice.UNDO_ROLLED_BACK_ONLY)
    if load.kind == "redrive":
        _refuse(load, advice.redrive_again(load.pipeline, load_id))
    ranges = tuple(bring_back(connection, load))
    if not ranges:
        _refuse(load, advice.reload_rolled_back(load.pipeline))
    find_store(load.declaration).put_back(connection, load)
    update_results(connection, load, list_updated(connection, load.pipeline_id), Change.adds(load))
    republish_load(connection, load)
    record_event(connection, who, load, ROLLBACK_UNDONE, why)
    message = f"{load.pipeline}: load {load_id} is published again: {name_ranges(ranges)}."
    return RolledBack(read_load(connection, load_id), ranges, message)


def _refuse(load: Load, next_step: str) -> Never:
    raise WrongUseError(f"the load is {load.state}.", pipeline=load.pipeline, load=load.load_id, next_step=next_step)
