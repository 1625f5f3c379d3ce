"""The results of a pipeline: their tables, the load that each stands at, rebuilds, and the last verification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock import advice
from penstock.ledger.pipeline import find_pipeline
from penstock.ledger.result import ListedResult, ResultState, list_results

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.declaration.pipeline import Pipeline
    from penstock.declaration.results import Result
    from penstock.ledger.connection import Connection

# A declared result is not in the ledger yet: the next load creates its table.
State = Literal["declared", "waiting", "building", "current"]


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuild under way: the rows that it has read of the loads up to `until_load`."""

    load: int
    until_load: int
    rows: int
    rows_to_read: int


@dataclass(frozen=True, slots=True)
class ResultVerification:
    """The last verification of a result; `fault` says what differs from the rows of the target."""

    verification: int
    at: datetime
    share: float
    fault: str | None


@dataclass(frozen=True, slots=True)
class ResultStatus:
    """A result of a pipeline. `rows` is an estimate of the catalog."""

    table: str
    mode: str
    key: tuple[str, ...]
    state: State
    changes_with_loads: bool
    rows: int | None
    load: int | None
    declared_at: datetime | None
    current_since: datetime | None
    rebuild: Rebuild | None
    provable: bool
    verification: ResultVerification | None
    next_step: str | None


def read_results(connection: Connection, name: str, declared: Pipeline | None) -> list[ResultStatus]:
    """Read the results of a pipeline: those of the ledger, and the declared ones that no load has prepared yet."""
    pipeline_id = find_pipeline(connection, name)
    known = list_results(connection, pipeline_id) if pipeline_id is not None else []
    found = [_describe(name, each) for each in known]
    names = {each.table for each in known}
    missing = [each for each in (declared.results if declared else ()) if str(each.table) not in names]
    return sorted([*found, *(_describe_declared(name, each) for each in missing)], key=lambda each: each.table)


def _describe_declared(name: str, result: Result) -> ResultStatus:
    return ResultStatus(
        table=str(result.table),
        mode=result.mode,
        key=result.key,
        state="declared",
        changes_with_loads=False,
        rows=None,
        load=None,
        declared_at=None,
        current_since=None,
        rebuild=None,
        provable=result.mode == "upsert" or result.check is not None,
        verification=None,
        next_step=f"{advice.run_pipeline_or_dag(name)}; the next load prepares the table.",
    )


def _describe(name: str, known: ListedResult) -> ResultStatus:
    return ResultStatus(
        table=known.table,
        mode=known.mode,
        key=tuple(known.key),
        state=ResultState(known.state).value,
        changes_with_loads=known.is_current,
        rows=known.rows,
        load=known.load,
        declared_at=known.declared_at,
        current_since=known.current_since,
        rebuild=_find_rebuild(known),
        provable=known.is_provable,
        verification=_find_verification(known),
        next_step=_find_next_step(name, known),
    )


def _find_rebuild(known: ListedResult) -> Rebuild | None:
    if known.built_until is None or known.build_to is None:
        return None
    return Rebuild(known.built_until, known.build_to, known.rows_read or 0, known.rows_to_read or 0)


def _find_verification(known: ListedResult) -> ResultVerification | None:
    if known.verification_id is None or known.verified_at is None or known.share is None or not known.is_provable:
        return None
    return ResultVerification(known.verification_id, known.verified_at, known.share, known.fault)


def _find_next_step(name: str, known: ListedResult) -> str | None:
    if known.state == ResultState.BUILDING:
        return advice.continue_rebuild(name, known.table)
    if known.state == ResultState.WAITING:
        return advice.rebuild_waiting(name, known.table)
    return advice.correct_table(name, known.table) if known.fault else None
