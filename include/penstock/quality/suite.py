"""The suite of one load: the built-in expectations, then the declared ones, run on the staged table."""

from __future__ import annotations

import logging
import re
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from penstock import advice
from penstock.errors import ChecksCrashedError
from penstock.ledger.connection import connect
from penstock.model.load import CheckResult
from penstock.quality.asking import asking_side_by_side
from penstock.quality.checker import STOPPED, Access, choose_access, grant_reads, open_checker, refuse_strong
from penstock.quality.counts import MOST_SAMPLES, AttemptCounts, count_attempt
from penstock.quality.declared import (
    SEVERITIES,
    build_expectation,
    gather_arguments,
    reads_history,
    select_checks,
    translate,
)
from penstock.quality.expectations import EVERY_LOAD, LIVE_LOADS
from penstock.quality.gx import ExpectationSuite, get_context
from penstock.target.postgres.attempt import attempt_table, attempt_table_name
from penstock.target.postgres.table import STAGE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import psycopg
    from great_expectations.core.expectation_validation_result import ExpectationValidationResult
    from great_expectations.datasource.fluent.interfaces import Batch
    from great_expectations.expectations.expectation import Expectation

    from penstock.declaration.pipeline import Check
    from penstock.ledger.check_result import RowSums
    from penstock.model.load import Load
    from penstock.quality.expectations import PartitionsExpectation

    Results = Mapping[int, ExpectationValidationResult]

# Carried through Great Expectations to know each result again.
PLACE = "penstock_place"
QUERIES = ("unexpected_rows_query", "base_query", "comparison_query")
TALKATIVE = ("great_expectations", "sqlalchemy")
# Classes of SQLSTATE of an error that a value of a row causes, so that a retry of the check would meet it again.
BY_VALUES = ("21", "22", "42", "54", "P0", "XX000")
_STOP = re.compile(rf"{STOPPED}(?P<condition>[a-z0-9 ]+ \(SQLSTATE (?P<state>[0-9A-Z]{{5}})\))")
# Great Expectations divides a sum over a column by another sum. PostgreSQL's sum over no value is null.
_NO_VALUE = re.compile(r"unsupported operand type\(s\) for /: 'NoneType'")
NO_VALUE = "the column has no value"
_CHECKING = threading.Lock()
# A relation that `checks_read` can make readable, and its schema. A function or a setting is neither.
_UNREADABLE = re.compile("permission denied for (table|view|materialized view|foreign table|schema) ")
RESULT_FORMAT = {
    "result_format": "SUMMARY",
    "unexpected_index_column_names": ["_partition", "_offset"],
    "partial_unexpected_count": MOST_SAMPLES,
}


@dataclass(frozen=True, slots=True)
class Checked:
    """The results of the checks, and the sums over each partition's rows."""

    results: list[CheckResult]
    sums: Mapping[int, RowSums]


def check_load(db_uri: str, load: Load, checker_uri: str | None = None) -> Checked:
    """Run all checks on the load's current attempt. If one check crashes, no result counts."""
    with _quiet():
        try:
            access, arguments = _prepare(db_uri, load, checker_uri)
            refuse_strong(access, load)
            suite = build_suite(load, arguments)
            with asking_side_by_side(partial(_count, db_uri, load)) as asking:
                results = open_batch(access, load).validate(suite, result_format=RESULT_FORMAT).results
                counts = asking.counts.result()
        except ChecksCrashedError:
            raise
        except Exception as error:
            # The error may quote values of rows, and a trace in Airflow's log would show them.
            raise _crashed(load, "the suite", f"{type(error).__name__}: {error}") from None
    found = {result.expectation_config.meta[PLACE]: result for result in results}
    rows = sum(partition.rows for partition in counts.partitions)
    for place, expectation in enumerate(suite.expectations):
        _refuse_crash(load, expectation.expectation_type, found.get(place), _find_suite(load, place))
    results = [*_translate_builtin(load, found), *_translate_declared(load, found, rows)]
    return Checked(results, counts.sums)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Great Expectations and SQLAlchemy, because their logs hold rows and values at level DEBUG.

    The results hold the message of a crash. The loads of a parallel backfill are checked one after the other: the
    filters of warnings, the levels of loggers and the context of Great Expectations belong to the whole process, so the
    end of one check would make another one loud.
    """
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    with _CHECKING:
        levels = [logger.level for logger in loggers]
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL + 1)
            with warnings.catch_warnings(action="ignore"):
                yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def build_suite(load: Load, arguments: Sequence[dict[str, Any]]) -> ExpectationSuite:
    """Build the expectations of a load. Each carries its place in the suite, by which its result is found.

    `arguments` are those of the declared checks that apply to the load.
    """
    builtin = name_builtin(load)
    first = len(builtin)
    given = {"load_id": load.load_id, "attempt": load.attempt}
    return ExpectationSuite(
        name=f"load_{load.load_id}",
        expectations=[
            *(kind(**given, severity=SEVERITIES["error"], meta={PLACE: at}) for at, kind in enumerate(builtin)),
            *(
                _build_declared(load, check, given, at)
                for at, (check, given) in enumerate(zip(select_checks(load), arguments, strict=True), first)
            ),
        ],
    )


def name_builtin(load: Load) -> tuple[type[PartitionsExpectation], ...]:
    """The built-in expectations of a load: only a live load starts at a position."""
    return LIVE_LOADS if load.kind == "live" else EVERY_LOAD


def escape_colons(query: str) -> str:
    """Escape each colon before a word: SQLAlchemy would read `:1` in the text of a JSON document as a parameter."""
    return re.sub(r"(?<![:\w\\]):(?=\w+(?![:\w]))", r"\\:", query)


def _build_declared(load: Load, check: Check, arguments: dict[str, Any], place: int) -> Expectation:
    given = {name: escape_colons(value) if name in QUERIES else value for name, value in arguments.items()}
    try:
        return build_expectation(check, given, **{PLACE: place})
    except Exception as error:  # the declaration alone is the cause: no row was read yet
        raise _crashed(load, check.expect, f"{type(error).__name__}: {error}", check.suite) from error


def _prepare(db_uri: str, load: Load, checker_uri: str | None) -> tuple[Access, list[dict[str, Any]]]:
    """Read the ledger with the loader's rights, and grant the checks to read the rows."""
    with connect(db_uri) as connection:
        access = choose_access(connection, db_uri, checker_uri)
        if access.is_other:
            grant_reads(connection, load, with_target=reads_history(load))
        connection.commit()
        return access, gather_arguments(connection, load)


def _count(db_uri: str, load: Load) -> AttemptCounts:
    """Count the attempt with the loader's rights."""
    with connect(db_uri) as connection:

        def ask(statement: str, values: Mapping[str, object]) -> list[dict[str, Any]]:
            return connection.cursor(row_factory=dict_row).execute(statement.encode(), values).fetchall()

        return count_attempt(ask, attempt_table(load.load_id, load.attempt), load.load_id, load.attempt)


def open_batch(access: Access, load: Load) -> Batch:
    """Open the staged table. The URI stays in a closure, so that no configuration of Great Expectations holds it."""
    from sqlalchemy.pool import NullPool

    def creator() -> psycopg.Connection[Any]:
        return open_checker(access, load.declaration.timeout_minutes)

    context = get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_sql(
        "staged",
        connection_string="postgresql+psycopg://",
        kwargs={"creator": creator, "poolclass": NullPool, "hide_parameters": True},
    )
    table = attempt_table_name(load.load_id, load.attempt)
    asset = source.add_table_asset("attempt", table_name=table, schema_name=STAGE_SCHEMA)
    return asset.add_batch_definition_whole_table("all").get_batch()


def _translate_builtin(load: Load, found: Results) -> Iterator[CheckResult]:
    for place, expectation in enumerate(name_builtin(load)):
        name = expectation.expectation_type
        for judged in found[place].result["details"]["partitions"]:
            partition, success, observed = judged["partition"], judged["success"], judged["observed"]
            yield CheckResult("builtin", name, partition, None, "error", success, observed)


def _translate_declared(load: Load, found: Results, rows: int) -> Iterator[CheckResult]:
    for place, check in enumerate(select_checks(load), len(name_builtin(load))):
        stop = find_stop(found[place].exception_info)
        # An empty load has no value, so no value is wrong.
        yield from translate(check, found[place], rows, None if not rows and stop == NO_VALUE else stop)


def _find_suite(load: Load, place: int) -> str | None:
    declared = place - len(name_builtin(load))
    return select_checks(load)[declared].suite if declared >= 0 else None


def _refuse_crash(load: Load, name: str, result: ExpectationValidationResult | None, suite: str | None) -> None:
    # A result is falsy when its expectation failed, so the test is for None.
    crash = "the check gave no result" if result is None else find_crash(result.exception_info)
    is_declared = name in {check.expect for check in load.declaration.checks}
    if crash is not None and not (is_declared and result is not None and find_stop(result.exception_info)):
        raise _crashed(load, name, crash, suite)


def find_crash(exception_info: dict[str, Any] | None) -> str | None:
    """Find the message of a crash. Great Expectations reports a broken query as a failed expectation."""
    return next(iter(_list_crashes(exception_info)), None)


def find_stop(exception_info: dict[str, Any] | None) -> str | None:
    """Find the condition by which a value of a row stopped the check; None if the check has another crash too."""
    crashes = _list_crashes(exception_info)
    if crashes and all(map(_NO_VALUE.search, crashes)):
        return NO_VALUE
    stops = [_STOP.search(crash) for crash in crashes]
    found = [stop["condition"] for stop in stops if stop and stop["state"].startswith(BY_VALUES)]
    return found[0] if found and len(found) == len(stops) else None


def _list_crashes(exception_info: dict[str, Any] | None) -> list[str]:
    """List the messages of the crashes. The information is one record, or a record for each metric that crashed."""
    info = exception_info or {}
    records = [info] if "raised_exception" in info else [record for record in info.values() if isinstance(record, dict)]
    return [
        str(record.get("exception_message") or "the check raised an exception")
        for record in records
        if record.get("raised_exception")
    ]


def _crashed(load: Load, name: str, message: str, suite: str | None = None) -> ChecksCrashedError:
    if name not in {check.expect for check in load.declaration.checks}:
        next_step = f"retry the validate step; if this happens again, {advice.REPORT_DEFECT}"
    elif not _UNREADABLE.search(message):
        place = f"the suite {suite}" if suite else "the declaration"
        next_step = f"fix the check in {place}, or retry the validate step if the database was not available."
    else:
        next_step = (
            "name the tables that the check reads, other than the load's rows, under `checks_read` in the declaration."
        )
    named = f"{name} of the suite {suite}" if suite else name
    return ChecksCrashedError(
        f"{named} crashed: {hide_values(message)} The load stays {load.state}.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=next_step,
    )


def hide_values(message: str) -> str:
    """Keep the first line of an exception. The cursor of the checks has replaced PostgreSQL's errors about values."""
    line = " ".join(message.split("\n[SQL", 1)[0].split())
    if "psycopg.DataError" in line:  # psycopg quotes a value that Python's types cannot hold
        return "a value of a row is beyond the range of Python's types (psycopg.DataError)."
    return line[:500].rstrip(".") + "."
