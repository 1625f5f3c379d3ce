"""The list of loads, and one load in full, as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from penstock.airflow.page.documents import (
    CheckEntry,
    DeclarationChange,
    EventEntry,
    LoadEntry,
    LoadPage,
    Loads,
    Phase,
    Progress,
    RangeEntry,
)
from penstock.errors import WrongUseError
from penstock.ledger import load_list
from penstock.model.checks import describe_figures
from penstock.model.load import OPEN_STATES, LoadState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from penstock.airflow.page.documents import LoadAction
    from penstock.ledger.connection import Connection
    from penstock.ledger.load_list import ListedLoad

LOADS_A_PAGE = 25
MOST_RANGES, MOST_CHECKS, MOST_EVENTS = 1_000, 500, 100
MOST_TEXT = 2_000  # of a field of a declaration: a table has up to 1,500 columns
LOADS_SQL = "select * from penstock.loads where pipeline = '{name}' order by load_id desc;"
LOAD_SQL = "select * from penstock.ranges where load_id = {load} order by partition, from_offset;"
# The DAG of a run, by the kind of its loads.
DAGS = {"backfill": "penstock_backfill", "replay": "penstock_backfill"}


def describe_loads(
    connection: Connection, name: str, pipeline_id: int | None, page: int, kind: str | None, state: str | None
) -> Loads:
    """Describe a page of the loads of a pipeline; a pipeline without a plan has none."""
    found, total = [], 0
    if pipeline_id is not None:
        total = load_list.count_loads(connection, pipeline_id, kind, state)
        skip = (page - 1) * LOADS_A_PAGE
        found = load_list.list_loads(connection, pipeline_id, kind, state, most=LOADS_A_PAGE, skip=skip)
    return Loads(
        page=page,
        pages=count_pages(total, LOADS_A_PAGE),
        total=total,
        loads=[LoadEntry(**_describe(name, load)) for load in found],
        sql=LOADS_SQL.format(name=name),
    )


def describe_load(connection: Connection, name: str, pipeline_id: int | None, load_id: int) -> LoadPage:
    """Describe one load of a pipeline."""
    load = None if pipeline_id is None else load_list.find_load(connection, pipeline_id, load_id)
    if load is None or pipeline_id is None:
        raise WrongUseError(f"{name} has no load {load_id}.", next_step="choose one of the list of its loads.")
    progress = []
    if load.state == LoadState.STAGING:
        progress = load_list.read_progress(connection, load_id, MOST_RANGES)
    ranges = load_list.read_ranges(connection, load_id, MOST_RANGES + 1)
    return LoadPage(
        **_describe(name, load),
        pipeline=name,
        application_id=load.application_id,
        ranges=[RangeEntry(**each) for each in ranges[:MOST_RANGES]],
        more_ranges=len(ranges) > MOST_RANGES,
        progress=[Progress(**each) for each in progress],
        checks=[_describe_check(each) for each in load_list.read_checks(connection, load_id, MOST_CHECKS)],
        events=[describe_event(each) for each in load_list.read_load_events(connection, load_id, MOST_EVENTS)],
        declaration_changes=[
            DeclarationChange(field=each["field"], before=_clip(each["before"]), after=_clip(each["after"]))
            for each in load_list.compare_declarations(connection, pipeline_id, load_id)
        ],
        actions=list(_find_actions(load)),
        sql=LOAD_SQL.format(load=load_id),
    )


def count_pages(total: int, size: int) -> int:
    """The number of pages; an empty list has one."""
    return max(1, -(-total // size))


def describe_event(event: Mapping[str, Any]) -> EventEntry:
    """Describe an event; its kind is the first word of its text."""
    return EventEntry(kind=event["what"].replace(":", " ").split()[0], **event)


def find_run(name: str, kind: str, run_id: str) -> str | None:
    """The path of a run in Airflow; None for a run of the command line."""
    if "cli__" in run_id or kind == "redrive":
        return None
    if kind in DAGS:  # a backfill numbers the loads of its run
        return f"/dags/{DAGS[kind]}/runs/{quote(run_id.rpartition('/')[0] or run_id, safe='')}"
    return f"/dags/{name}/runs/{quote(run_id, safe='')}"


def _describe(name: str, load: ListedLoad) -> dict[str, Any]:
    fields = {field: getattr(load, field, None) for field in LoadEntry.model_fields}
    return fields | {"run_link": find_run(name, load.kind, load.run_id), "phases": list(list_phases(load))}


def list_phases(load: ListedLoad) -> Iterator[Phase]:
    """The phases of a load, with the time that each took; the last one of an open load still runs."""
    is_open = load.state in OPEN_STATES
    decided_at = load.validated_at or (None if is_open else load.ended_at)
    steps: list[tuple[str, datetime | None, datetime | None]] = [
        ("wait", load.planned_at, load.staging_at),
        ("stage", load.staging_at, load.staged_at),
        ("validate", load.staged_at, load.held_at or load.validated_at),
        ("held", load.held_at, decided_at),
        ("publish", load.validated_at, load.published_at),
    ]
    for phase, began, ended in steps:
        if began is None:
            continue
        # An attempt begins later than the end of an attempt before it.
        over = ended is not None and ended >= began
        until = ended if over and ended is not None else load.now if is_open else load.ended_at
        if until is not None:
            yield Phase(phase=phase, seconds=max(0.0, (until - began).total_seconds()), ended=over or not is_open)
        if not over:
            return


def _describe_check(check: Mapping[str, Any]) -> CheckEntry:
    known = {name: value for name, value in check.items() if name != "observed"}
    return CheckEntry(**known, figures=describe_figures(check["observed"]))


def _clip(text: str | None) -> str | None:
    return text if text is None or len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]} …"


def _find_actions(load: ListedLoad) -> Iterator[LoadAction]:
    if load.state == LoadState.HELD:
        yield "approve"
    if load.state in OPEN_STATES:
        yield "discard"
    if load.state == LoadState.PUBLISHED:
        yield "rollback"
        yield "replay"
    if load.state == LoadState.ROLLED_BACK and load.kept_until is not None and load.kept_until > load.now:
        yield "undo"
