"""The ledger: what was planned, staged, checked and published.

Every function takes a connection and works in the caller's transaction; none commits. Every change of a load's state is
one UPDATE that names the state it leaves, and its row count is checked.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from penstock import advice
from penstock.declaration.pipeline import Pipeline
from penstock.errors import FencedError, StageError, WrongUseError
from penstock.ledger.connection import Connection, concerning
from penstock.ledger.statements import Room
from penstock.model.load import CheckResult, Load
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

_room = Room("ledger/load")
run, run_for_row = _room.run, _room.run_for_row


@contextmanager
def reading_load(connection: Connection, load_id: int) -> Iterator[Load]:
    """Read a load, and name it with its pipeline and ranges in every error that is raised inside."""
    load = read_load(connection, load_id)
    with concerning(load=load):
        yield load


def read_load(connection: Connection, load_id: int) -> Load:
    """Read a load with its plan."""
    row = run(connection, "read_load", load_id=load_id).fetchone()
    if row is None:
        raise WrongUseError(f"there is no load {load_id}.", next_step=advice.LIST_LOADS)
    ranges = run(connection, "read_load_ranges", load_id=load_id).fetchall()
    row["declaration"] = Pipeline.read_kept(row["declaration"])
    return Load(**row, ranges=tuple(Range(**found) for found in ranges))


def begin_attempt(connection: Connection, load: Load) -> int:
    """Open the next attempt at staging a load; an attempt that still runs is fenced by this."""
    row = run(
        connection, "begin_attempt", load_id=load.load_id, state=load.state, attempt=load.attempt
    ).fetchone()  # fmt: skip
    if row is None:
        raise _fenced(load, "began a new attempt")
    return int(row["attempt"])


def record_application(connection: Connection, load_id: int, attempt: int, application_id: str) -> None:
    """Note which Spark application stages the attempt, for whoever has to look for it."""
    run(connection, "record_application", load_id=load_id, attempt=attempt, application_id=application_id)


def finish_staging(connection: Connection, load: Load, attempt: int) -> None:
    """Move a load from staging to staged, if every offset of its plan is accounted for by the current attempt."""
    summed = run(connection, "sum_stage_tasks", load_id=load.load_id, attempt=attempt).rowcount
    if summed != len(load.ranges):
        raise StageError(
            f"attempt {attempt} staged {summed} of {len(load.ranges)} ranges whole.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.RETRY_STAGE_WITH_NEW_ATTEMPT,
        )
    _expect_one(run(connection, "finish_staging", load_id=load.load_id, attempt=attempt), load, "staged")


def record_checks(connection: Connection, load: Load, results: Sequence[CheckResult]) -> None:
    """Keep the results of the checks on the load's current attempt."""
    run(connection, "forget_checks", load_id=load.load_id, attempt=load.attempt)
    for ordinal, result in enumerate(results):
        run(
            connection,
            "record_check",
            load_id=load.load_id,
            attempt=load.attempt,
            ordinal=ordinal,
            kind=result.kind,
            expectation=result.expectation,
            partition=result.partition,
            column=result.column,
            severity=result.severity,
            success=result.success,
            observed=Jsonb(result.observed),
        )


def pass_checks(connection: Connection, load: Load) -> None:
    """Move a load from staged to validated."""
    _expect_one(run(connection, "pass_checks", load_id=load.load_id, attempt=load.attempt), load, "validated")


def hold_load(connection: Connection, load: Load, cause: str) -> None:
    """Move a load from staged to held."""
    _expect_one(run(connection, "hold_load", load_id=load.load_id, attempt=load.attempt, cause=cause), load, "held")
    record_event(connection, "penstock", load, "held", cause)


def fail_load(connection: Connection, load: Load, cause: str) -> None:
    """End a load that would fail again however often it is tried; `load` says which state it leaves."""
    ended = run(connection, "fail_load", load_id=load.load_id, state=load.state, attempt=load.attempt, cause=cause)
    _expect_one(ended, load, "failed")
    record_event(connection, "penstock", load, "failed", cause)


def record_event(connection: Connection, actor: str, load: Load, what: str, why: str | None) -> None:
    """Note who did what."""
    run(
        connection,
        "record_event",
        actor=actor,
        pipeline_id=load.pipeline_id,
        load_id=load.load_id,
        what=what,
        why=why,
    )


def record_pipeline_event(connection: Connection, actor: str, pipeline_id: int, what: str, why: str) -> None:
    """Note who did what to a pipeline, and to no load of it."""
    run(connection, "record_event", actor=actor, pipeline_id=pipeline_id, load_id=None, what=what, why=why)


def refuse_silence(who: str, why: str, *, pipeline: str | None = None, load: int | None = None) -> None:
    """Refuse a decision of nobody, or for no reason."""
    for name, text in (("who decides", who), ("why", why)):
        if not text.strip():
            raise WrongUseError(
                f"it is not said {name}.", pipeline=pipeline, load=load, next_step=advice.GIVE_WHO_AND_WHY
            )


def _expect_one(cursor: psycopg.Cursor[dict[str, Any]], load: Load, becomes: str) -> None:
    if cursor.rowcount != 1:
        raise _fenced(load, f"was about to become {becomes}")


def _fenced(load: Load, when: str) -> FencedError:
    return FencedError(
        f"another process took over attempt {load.attempt} when it {when}; nothing of this attempt is published.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=advice.WAIT_FOR_OTHER_PROCESS,
    )
