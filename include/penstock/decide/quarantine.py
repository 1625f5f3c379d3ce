"""Decisions of a person on quarantined records: to see their contents, and to drop them for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import WrongUseError
from penstock.ledger.connection import open_ledger
from penstock.ledger.event import record_event, record_pipeline_event, require_reason
from penstock.ledger.load import read_load
from penstock.ledger.pipeline import find_pipeline, lock_pipeline
from penstock.ledger.quarantine import (
    Quarantined,
    Selection,
    drop_quarantined,
    list_quarantined,
    read_each_quarantined,
    read_quarantined,
)
from penstock.model.times import read_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Dropped:
    """The number of records whose contents were dropped, by load."""

    by_load: dict[int, int]
    message: str


def read_selection(
    pipeline: str,
    reason: str | None,
    rule: str | None,
    load: int | None,
    at: str | None,
    since: str | None,
    until: str | None,
) -> Selection:
    """Make a selection from the options of a command or the fields of a form."""
    partition, offset = _read_place(at) if at is not None else (None, None)
    from_time, until_time = (None if text is None else read_time(text) for text in (since, until))
    return Selection(pipeline, reason, rule, load, partition, offset, from_time, until_time)


def refuse_everything(selection: Selection, *, everything: bool) -> None:
    """Refuse a decision on all records that does not say so."""
    if selection.is_everything and not everything:
        raise WrongUseError(
            "no record is chosen.", pipeline=selection.pipeline, next_step=advice.CHOOSE_QUARANTINED_RECORDS
        )


def _read_place(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition(":")
    if not (partition.isdecimal() and offset.isdecimal() and len(partition) < 10 and len(offset) < 19):
        raise WrongUseError(f"{text[:100]!r} is not a place of a record.", next_step=advice.WRITE_PLACE)
    return int(partition), int(offset)


def count_records(uri: str, selection: Selection) -> list[dict[str, Any]]:
    """Count records by load, reason and rule."""
    with open_ledger(uri) as connection:
        return list_quarantined(connection, selection)


def show_records(uri: str, selection: Selection, who: str, *, payload: bool) -> list[Quarantined]:
    """Read some records. If a person sees their contents, the ledger keeps an event."""
    with open_ledger(uri) as connection:
        records = read_quarantined(connection, selection, MOST_SHOWN)
        if payload:
            _record_seen(uri, selection, who, "contents of quarantined records shown")
    return records


def export_records(uri: str, selection: Selection, who: str) -> Iterator[Quarantined]:
    """Read all records with their contents; the ledger keeps an event, written before the first record is read."""
    _record_seen(uri, selection, who, "contents of quarantined records exported")
    with open_ledger(uri) as connection:
        yield from read_each_quarantined(connection, selection)


def _record_seen(uri: str, selection: Selection, who: str, what: str) -> None:
    with open_ledger(uri) as connection:
        pipeline_id = find_pipeline(connection, selection.pipeline)
        if pipeline_id is not None:
            record_pipeline_event(connection, who, pipeline_id, what, str(selection))


def drop_records(uri: str, selection: Selection, who: str, why: str) -> Dropped:
    """Drop the contents of records for good. Their offsets and reasons stay, so every offset stays accounted for."""
    require_reason(who, why, pipeline=selection.pipeline)
    with open_ledger(uri) as connection:
        lock_pipeline(connection, selection.pipeline)
        by_load = drop_quarantined(connection, selection)
        if not by_load:
            raise WrongUseError(
                f"{selection.describe_none()}; nothing is changed.",
                pipeline=selection.pipeline,
                next_step=advice.list_quarantine(selection.pipeline),
            )
        for load_id, records in by_load.items():
            what = f"contents of {records} quarantined records dropped"
            record_event(connection, who, read_load(connection, load_id), what, why)
    message = (
        f"{selection.pipeline}: the contents of {sum(by_load.values())} quarantined records of {len(by_load)} loads "
        "are dropped. Their offsets and reasons stay."
    )
    return Dropped(by_load, message)
