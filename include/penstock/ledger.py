"""The ledger: what was planned, staged, checked and published.

Every function takes a connection and works in the caller's transaction; none commits. Every change of a load's state is
one UPDATE that names the state it leaves, and its row count is checked.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from penstock import session
from penstock.errors import FencedError, PenstockError, StageError, WrongUseError
from penstock.migrating import apply_migrations, compare_migrations
from penstock.pipeline import Pipeline
from penstock.ranges import Range
from penstock.roles import OWNER, arrange_roles
from penstock.settings import read_db
from penstock.statements import Room

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_room = Room("ledger")
run, run_for_row = _room.run, _room.run_for_row

MISTAKE, QUOTE = re.compile("invalid [a-z_]+ value|definition of service"), '"'
Connection = psycopg.Connection[Any]
Kind = Literal["live", "backfill", "replay"]
# A process that is stopped inside a transaction would hold its locks for ever. PostgreSQL ends its session, so that it
# cannot go on when it wakes, and whoever waits for the lock waits longer than that.
LIMITS = {"idle_in_transaction_session_timeout": "30s", "lock_timeout": "60s"}
# Classes of SQLSTATE: data exceptions, violated constraints, and what a trigger raises.
ABOUT_VALUES = ("22", "23", "P0")
OPEN_STATES = ("planned", "staging", "staged", "validated", "held")


@dataclass(frozen=True, slots=True)
class Load:
    """A load as the ledger holds it."""

    load_id: int
    pipeline_id: int
    pipeline: str
    generation_id: int
    kind: Kind
    state: str
    attempt: int
    run_id: str
    declaration: Pipeline
    ranges: tuple[Range, ...]
    cause: str | None
    rows: int | None
    quarantined: int | None
    holes: int | None
    superseded_by: int | None
    cluster_id: str
    topic_id: str
    application_id: str | None
    backfill_id: int | None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one expectation found, for one partition or for the whole load."""

    kind: Literal["builtin", "declared"]
    expectation: str
    partition: int | None
    column: str | None
    severity: Literal["error", "warning"]
    success: bool
    observed: dict[str, Any]


def open_ledger(uri: str) -> Connection:
    """Connect to the ledger; one that this version of Penstock does not know is refused."""
    connection = connect(uri)
    try:
        difference = compare_migrations(connection)
        connection.rollback()
        difference.refuse()
        difference.refuse_missing()
    except BaseException:
        connection.close()
        raise
    return connection


def connect(uri: str) -> Connection:
    """Connect to the database within bounded time, by a connection that notices when its peer is gone."""
    try:
        connection = psycopg.connect(
            make_conninfo(uri, **session.make_parameters(read_db(uri), **LIMITS)),
            application_name="penstock",
            connect_timeout=10,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=30_000,
        )
        connection.execute(session.OVERRIDE)
        connection.commit()
        return connection
    except psycopg.OperationalError as error:
        told = str(error).splitlines()[0]
        if MISTAKE.search(told):  # libpq says so before it connects, and quotes what stands there
            raise WrongUseError(
                f"PENSTOCK_DB has an option that libpq does not take: {told.partition(QUOTE)[0].rstrip(': ')}.",
                next_step="fix the option in the URI (in Airflow: in the extra of the connection penstock_db).",
            ) from None
        raise PenstockError(
            f"the database of the ledger cannot be reached: {told}",
            next_step="check that PostgreSQL runs, and PENSTOCK_DB (in Airflow: the connection penstock_db).",
        ) from None  # libpq may quote the URI, which holds the password


def explain(error: psycopg.Error) -> PenstockError:
    """Say in Penstock's words what PostgreSQL refused."""
    told = _first_line(error)
    if isinstance(error, psycopg.OperationalError) and error.sqlstate in (None, "57P01", "57P02", "57P03", "25P03"):
        return PenstockError(
            f"the connection to PostgreSQL broke: {told}. It ends sessions that stand still inside a transaction, too.",
            next_step="run again when PostgreSQL is back: what is published stays, and the rest is planned anew.",
        )
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return PenstockError(
            f"another session holds a lock: {told}.",
            next_step="look for it in pg_stat_activity (application_name penstock), then try again.",
        )
    if error.sqlstate == "53100":
        return PenstockError(f"PostgreSQL: {told}", next_step="make room on the disk of PostgreSQL, then try again.")
    return PenstockError(
        f"PostgreSQL: {told}", next_step="check the database and the rights of the role in PENSTOCK_DB, then try again."
    )


def _first_line(error: psycopg.Error) -> str:
    if keep_cause(error) is None:
        return f"it refused a value ({type(error).__name__}, SQLSTATE {error.sqlstate})"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def keep_cause(error: psycopg.Error) -> psycopg.Error | None:
    """The error as the cause of another. Complaints about data are left out: their texts quote values of rows."""
    return None if (error.sqlstate or "")[:2] in ABOUT_VALUES else error


@contextmanager
def concerning(pipeline: str | None = None, load: Load | int | None = None) -> Iterator[None]:
    """Name the pipeline and the load in every error that is raised inside, and explain those of PostgreSQL."""
    number, ranges = (load.load_id, load.ranges) if isinstance(load, Load) else (load, ())
    name = load.pipeline if isinstance(load, Load) else pipeline
    try:
        yield
    except PenstockError as error:
        error.fill(name, number, ranges)
        raise
    except psycopg.Error as error:
        raise explain(error).fill(name, number, ranges) from keep_cause(error)


@contextmanager
def reading_load(connection: Connection, load_id: int) -> Iterator[Load]:
    """Read a load, and name it with its pipeline and ranges in every error that is raised inside."""
    load = read_load(connection, load_id)
    with concerning(load=load):
        yield load


@dataclass(frozen=True, slots=True)
class Migrated:
    """The migrations that were applied, and the statements about roles that the role in PENSTOCK_DB may not run."""

    applied: list[str]
    refused: list[str]


def migrate(uri: str) -> Migrated:
    """Bring the ledger up to date, and the roles as far as the role may."""
    with connect(uri) as connection:
        try:
            applied = apply_migrations(connection)
        except psycopg.errors.InsufficientPrivilege as error:
            raise WrongUseError(
                f"the role in PENSTOCK_DB may not change the ledger: {str(error).splitlines()[0]}.",
                next_step=f"run `penstock migrate` with PENSTOCK_DB of a superuser, or of a member of {OWNER}.",
            ) from None
        return Migrated(applied, arrange_roles(connection))


def read_load(connection: Connection, load_id: int) -> Load:
    """Read a load with its plan."""
    row = run(connection, "read_load", load_id=load_id).fetchone()
    if row is None:
        raise WrongUseError(f"there is no load {load_id}.", next_step="penstock.loads lists them.")
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
            next_step="try the stage step again; it begins a new attempt.",
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
                f"it is not said {name}.", pipeline=pipeline, load=load, next_step='say it: --why "…" (and --who).'
            )


def _expect_one(cursor: psycopg.Cursor[dict[str, Any]], load: Load, becomes: str) -> None:
    if cursor.rowcount != 1:
        raise _fenced(load, f"was about to become {becomes}")


def _fenced(load: Load, when: str) -> FencedError:
    return FencedError(
        f"another process took over attempt {load.attempt} when it {when}; nothing of this attempt is published.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step="nothing to do, if the other process goes on; `penstock status` shows where it stands.",
    )
