"""Loads in the ledger: their plan, their state, and the counts of what was staged.

Every function works in the caller's transaction. Every change of state is one UPDATE that names the state it leaves; a
function that finds the load in another state raises FencedError.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from penstock import advice
from penstock.declaration.pipeline import Pipeline
from penstock.errors import FencedError, StageError, WrongUseError
from penstock.ledger import check_result
from penstock.ledger.connection import Connection, concerning
from penstock.ledger.event import record_event
from penstock.ledger.incident import end_load_incidents, see_incident
from penstock.ledger.statements import Statements
from penstock.model.incident import IncidentKind, Sighting, key_of_load
from penstock.model.load import CheckResult, Load, LoadState
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from penstock.model.load import Kind

_statements = Statements("ledger/load")


@dataclass(frozen=True, slots=True)
class LoadOfRun:
    """The newest load that a run has planned."""

    load_id: int
    state: LoadState


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """The open live load of a pipeline."""

    load_id: int
    state: LoadState
    declaration: Pipeline | None  # of a held load only: nothing is compared with that of others
    cause: str | None
    run_id: str


@contextmanager
def reading_load(connection: Connection, load_id: int) -> Iterator[Load]:
    """Read a load, and name it with its pipeline and ranges in every error that is raised inside."""
    load = read_load(connection, load_id)
    with concerning(load=load):
        yield load


def read_load(connection: Connection, load_id: int) -> Load:
    """Read a load with its plan."""
    ranges = tuple(_statements.fetch_all(connection, Range, "read_load_ranges", load_id=load_id))

    def make(*, state: str, declaration: Any, **columns: Any) -> Load:  # noqa: ANN401 - columns of a row
        declared = Pipeline.read_kept(declaration)
        return Load(**columns, state=LoadState(state), declaration=declared, ranges=ranges)

    load = _statements.fetch_one(connection, make, "read_load", load_id=load_id)
    if load is None:
        raise WrongUseError(f"there is no load {load_id}.", next_step=advice.LIST_LOADS)
    return load


def read_state(connection: Connection, load_id: int) -> LoadState:
    """Read the state of a load, without its plan."""
    return _statements.fetch_value(connection, LoadState, "read_state", load_id=load_id)


def find_load_of_run(connection: Connection, pipeline_id: int, run_id: str) -> LoadOfRun | None:
    """Find the newest load that a run has planned."""
    where = {"pipeline_id": pipeline_id, "run_id": run_id}
    return _statements.fetch_one(connection, _make_load_of_run, "find_load_of_run", **where)


def find_open_live_load(connection: Connection, pipeline_id: int) -> OpenLoad | None:
    """Find the open live load of a pipeline."""
    return _statements.fetch_one(connection, _make_open_load, "find_open_live_load", pipeline_id=pipeline_id)


def find_open_loads(connection: Connection, target: str) -> list[int]:
    """Find the loads that may still be published into a target, in their order."""
    return _statements.fetch_values(connection, int, "find_open_loads", target=target)


def create_load(
    connection: Connection,
    pipeline_id: int,
    generation_id: int,
    pipeline: Pipeline,
    run_id: str,
    ranges: Sequence[Range],
    kind: Kind = "live",
    backfill_id: int | None = None,
    *,
    leader_epochs: Mapping[int, int | None] | None = None,
    loaded_until: Mapping[int, datetime | None] | None = None,
) -> Load:
    """Insert a load and its immutable plan."""
    load_id = _statements.fetch_value(
        connection,
        int,
        "create_load",
        pipeline_id=pipeline_id,
        generation_id=generation_id,
        kind=kind,
        run_id=run_id,
        backfill_id=backfill_id,
        declaration_id=keep_declaration(connection, pipeline),
    )
    epochs, loaded = leader_epochs or {}, loaded_until or {}
    rows = [
        {
            **asdict(range_),
            "leader_epoch": epochs.get(range_.partition),
            "loaded_until": at.isoformat() if (at := loaded.get(range_.partition)) else None,
        }
        for range_ in ranges
    ]
    _statements.execute(connection, "create_load_ranges", load_id=load_id, ranges=Jsonb(rows))
    return read_load(connection, load_id)


def keep_declaration(connection: Connection, pipeline: Pipeline) -> int:
    """Store a declaration once; return its number."""
    declaration = Jsonb(pipeline.model_dump(mode="json"))
    return _statements.fetch_value(connection, int, "keep_declaration", declaration=declaration)


def supersede_load(connection: Connection, pipeline: Pipeline, load: OpenLoad, actor: str, cause: str) -> None:
    """End an open load; a process that still works on the load finds it ended."""
    where = {"load_id": load.load_id, "state": load.state, "cause": cause}
    if _statements.execute(connection, "supersede_load", **where) != 1:
        raise FencedError(
            "the state of the load changed before it could be superseded.", pipeline=pipeline.name, load=load.load_id
        )
    record_event(connection, actor, read_load(connection, load.load_id), LoadState.SUPERSEDED, cause)
    why = cause
    if load.state == LoadState.HELD:
        why = f"{cause}: the declaration of {pipeline.name} has changed, and its offsets are loaded again"
    end_load_incidents(connection, pipeline.name, load.load_id, actor, why)


def supersede_failed_load(connection: Connection, load_id: int, successor: int) -> None:
    """Record that a new load of the same ranges replaces a failed load."""
    _statements.execute(connection, "supersede_failed_load", load_id=load_id, successor=successor)


def supersede_replaced_loads(connection: Connection, load_ids: Sequence[int], successor: int) -> None:
    """End those of the loads that no longer cover anything."""
    _statements.execute(connection, "supersede_replaced_loads", load_ids=list(load_ids), successor=successor)


def name_successor(connection: Connection, load_id: int, successor: int) -> None:
    """Record which load replaced a superseded load."""
    _statements.execute(connection, "name_successor", load_id=load_id, successor=successor)


def end_open_loads(connection: Connection, pipeline_id: int, actor: str, cause: str) -> None:
    """End the open loads of a pipeline that adopts another log."""
    where = {"pipeline_id": pipeline_id, "cause": cause}
    for ended in _statements.fetch_all(connection, _make_load_of_run, "end_open_loads", **where):
        load = read_load(connection, ended.load_id)
        record_event(connection, actor, load, ended.state, cause)
        end_load_incidents(connection, load.pipeline, load.load_id, actor, cause)


def begin_attempt(connection: Connection, load: Load) -> int:
    """Begin the next attempt at staging a load; an attempt that still runs is fenced."""
    where = {"load_id": load.load_id, "state": load.state, "attempt": load.attempt}
    attempts = _statements.fetch_values(connection, int, "begin_attempt", **where)
    if not attempts:
        raise _fenced(load, "began the next attempt")
    return attempts[0]


def record_application(connection: Connection, load_id: int, attempt: int, application_id: str) -> None:
    """Record which Spark application stages an attempt."""
    where = {"load_id": load_id, "attempt": attempt}
    _statements.execute(connection, "record_application", **where, application_id=application_id)


def finish_staging(connection: Connection, load: Load, attempt: int) -> None:
    """Move a load from staging to staged, if the current attempt accounts for every offset of the plan."""
    where = {"load_id": load.load_id, "attempt": attempt}
    summed = _statements.execute(connection, "sum_stage_tasks", **where)
    if summed != len(load.ranges):
        raise StageError(
            f"attempt {attempt} staged {summed} of {len(load.ranges)} ranges completely.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.RETRY_STAGE_WITH_NEW_ATTEMPT,
        )
    _change(connection, "finish_staging", load, LoadState.STAGED, **where)


def record_checks(connection: Connection, load: Load, results: Sequence[CheckResult]) -> None:
    """Record the results of the checks on the load's current attempt."""
    check_result.record_checks(connection, load.load_id, load.attempt, results)


def pass_checks(connection: Connection, load: Load) -> None:
    """Move a load from staged to validated."""
    _change(connection, "pass_checks", load, LoadState.VALIDATED, load_id=load.load_id, attempt=load.attempt)


def hold_load(connection: Connection, load: Load, cause: str, first_step: str | None = None) -> None:
    """Hold a load for a person; `load.state` is the state it leaves. `first_step` comes before the decision on it."""
    where = {"load_id": load.load_id, "state": load.state, "attempt": load.attempt}
    _change(connection, "hold_load", load, LoadState.HELD, **where, cause=cause)
    record_event(connection, "penstock", load, LoadState.HELD, cause)
    sighting = Sighting(
        load.pipeline,
        IncidentKind.HELD_LOAD,
        key_of_load(load.load_id),
        cause,
        " Then ".join(filter(None, (first_step, advice.settle_held(load.load_id, load.kind)))),
        load.load_id,
        load.ranges,
    )
    see_incident(connection, sighting, load.declaration.alerts)


def fail_load(connection: Connection, load: Load, cause: str) -> None:
    """End a load as failed: no run continues it. `load.state` is the state it leaves."""
    where = {"load_id": load.load_id, "state": load.state, "attempt": load.attempt}
    _change(connection, "fail_load", load, LoadState.FAILED, **where, cause=cause)
    record_event(connection, "penstock", load, LoadState.FAILED, cause)


def note_cause(connection: Connection, load_id: int, cause: str) -> None:
    """Record why the run of a load failed that is not validated yet. A later run may continue the load."""
    _statements.execute(connection, "note_cause", load_id=load_id, cause=cause)


def publish_load(connection: Connection, load: Load) -> None:
    """Move a load from validated to published."""
    if _statements.execute(connection, "publish_load", load_id=load.load_id, attempt=load.attempt) != 1:
        raise FencedError(pipeline=load.pipeline, load=load.load_id)


def release_load(connection: Connection, load: Load) -> bool:
    """Move a load from held to validated; False if its state has changed."""
    return _statements.execute(connection, "release_load", load_id=load.load_id) == 1


def discard_load(connection: Connection, load: Load) -> bool:
    """Move an open load to discarded; False if its state has changed."""
    return _statements.execute(connection, "discard_load", load_id=load.load_id, state=load.state) == 1


def roll_back_load(connection: Connection, load: Load, why: str, days: int) -> None:
    """Move a load from published to rolled_back; its rows are kept for some days."""
    if _statements.execute(connection, "roll_back_load", load_id=load.load_id, why=why, days=days) != 1:
        raise FencedError(pipeline=load.pipeline, load=load.load_id)


def republish_load(connection: Connection, load: Load) -> None:
    """Move a load from rolled_back to published."""
    if _statements.execute(connection, "republish_load", load_id=load.load_id) != 1:
        raise FencedError(pipeline=load.pipeline, load=load.load_id)


def republish_sources(connection: Connection, loads: Sequence[int]) -> None:
    """Move superseded loads that cover records of a rolled back redrive again to published."""
    _statements.execute(connection, "republish_sources", loads=list(loads))


def read_staged_ranges(connection: Connection, load_id: int) -> list[dict[str, Any]]:
    """Read the ranges of a load with their counts, by the keys of the JSON documents."""
    return _statements.fetch_all(connection, dict, "read_staged_ranges", load_id=load_id)


def _make_load_of_run(load_id: int, state: str) -> LoadOfRun:
    return LoadOfRun(load_id, LoadState(state))


def _make_open_load(
    load_id: int, state: str, declaration: Mapping[str, Any], cause: str | None, run_id: str
) -> OpenLoad:
    # The declaration of a load that is not held is not compared with anything.
    declared = Pipeline.read_kept(declaration) if state == LoadState.HELD else None
    return OpenLoad(load_id, LoadState(state), declared, cause, run_id)


def _change(connection: Connection, statement: str, load: Load, becomes: LoadState, **values: object) -> None:
    if _statements.execute(connection, statement, **values) != 1:
        raise _fenced(load, f"was about to become {becomes}")


def _fenced(load: Load, when: str) -> FencedError:
    return FencedError(
        f"another process took over attempt {load.attempt} when it {when}; nothing of this attempt is published.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=advice.WAIT_FOR_OTHER_PROCESS,
    )
