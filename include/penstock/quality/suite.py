"""The suite of one load: the built-in expectations, then the declared ones, run on the staged table."""

from __future__ import annotations

import logging
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg_errors
from psycopg.rows import dict_row

from penstock.errors import ChecksCrashedError
from penstock.ledger.connection import connect
from penstock.model.load import CheckResult
from penstock.quality.checker import Access, choose_access, grant_reads, open_checker, refuse_strong
from penstock.quality.counts import MOST_SAMPLES, PartitionCounts, count_partitions
from penstock.quality.expectations import EVERY_LOAD, LIVE_LOADS
from penstock.quality.gx import ExpectationSuite, get_context, get_expectation_impl
from penstock.quality.metric import COUNTED
from penstock.quality.observation import observe
from penstock.target.postgres.table import STAGE_SCHEMA, attempt_table, attempt_table_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from great_expectations.core.expectation_validation_result import ExpectationValidationResult
    from great_expectations.datasource.fluent.interfaces import Batch
    from great_expectations.expectations.expectation import Expectation

    from penstock.declaration.pipeline import Check
    from penstock.model.load import Load
    from penstock.quality.expectations import PartitionsExpectation

    Results = Mapping[int, ExpectationValidationResult]

# Carried through Great Expectations to know each result again.
PLACE = "penstock_place"
TALKATIVE = ("great_expectations", "sqlalchemy")
# Classes of SQLSTATE whose messages name objects and settings, never values: connections, rights, resources, limits.
NO_VALUES = ("08", "42501", "53", "55", "57", "58")
RESULT_FORMAT = {
    "result_format": "SUMMARY",
    "unexpected_index_column_names": ["_partition", "_offset"],
    "partial_unexpected_count": MOST_SAMPLES,
}


@dataclass(frozen=True, slots=True)
class Checked:
    """What the checks found, and the fingerprints of each partition's rows, which were taken in the same pass."""

    results: list[CheckResult]
    row_hashes: Mapping[int, Decimal]


def check_load(db_uri: str, load: Load, checker_uri: str | None = None) -> Checked:
    """Run all checks on the load's current attempt. If one of them comes to no result, none counts."""
    with _quiet():
        suite = build_suite(load)
        try:
            access, counts = _prepare(db_uri, load, checker_uri)
            refuse_strong(access, load)
            token = COUNTED.set({(load.load_id, load.attempt): counts})
            try:
                results = _open_batch(access, load).validate(suite, result_format=RESULT_FORMAT).results
            finally:
                COUNTED.reset(token)
        except ChecksCrashedError:
            raise
        except Exception as error:
            # Its text may quote values of rows, which a trace in Airflow's log would show.
            raise _crashed(load, "the suite", f"{type(error).__name__}: {error}") from None
    found = {result.expectation_config.meta[PLACE]: result for result in results}
    for place, expectation in enumerate(suite.expectations):
        _refuse_crash(load, expectation.expectation_type, found.get(place))
    builtin = list(_translate_builtin(load, found))
    rows = sum(check.observed["rows"] for check in builtin if "planned" in check.observed)
    hashes = found[0].result["details"]["row_hashes"]
    return Checked(
        builtin + list(_translate_declared(load, found, rows)),
        {partition: Decimal(row_hash) for partition, row_hash in hashes.items()},
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Great Expectations and SQLAlchemy from talking: with the details on, their logs hold rows and values.

    What they would say of a crash is in the results.
    """
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def build_suite(load: Load) -> ExpectationSuite:
    """Build the expectations of a load: each is given its place, to know its result again."""
    builtin = name_builtin(load)
    first = len(builtin)
    return ExpectationSuite(
        name=f"load_{load.load_id}",
        expectations=[
            *(kind(load_id=load.load_id, attempt=load.attempt, meta={PLACE: at}) for at, kind in enumerate(builtin)),
            *(_build_declared(load, check, at) for at, check in enumerate(load.declaration.checks, first)),
        ],
    )


def name_builtin(load: Load) -> tuple[type[PartitionsExpectation], ...]:
    """The built-in expectations of a load: only a live one starts at a position."""
    return LIVE_LOADS if load.kind == "live" else EVERY_LOAD


def _build_declared(load: Load, check: Check, place: int) -> Expectation:
    try:
        return get_expectation_impl(check.expect)(**check.arguments, meta={PLACE: place})
    except Exception as error:  # from the declaration alone: no row was read yet
        raise _crashed(load, check.expect, f"{type(error).__name__}: {error}") from error


def _prepare(db_uri: str, load: Load, checker_uri: str | None) -> tuple[Access, list[PartitionCounts]]:
    """Do by the loader's rights what the checks may not: count what the ledger says, and let them read the rows."""
    with connect(db_uri) as connection:
        access = choose_access(connection, db_uri, checker_uri)
        if access.is_other:
            grant_reads(connection, load)
        connection.commit()

        def ask(statement: str, values: Mapping[str, object]) -> list[dict[str, Any]]:
            return connection.cursor(row_factory=dict_row).execute(statement.encode(), values).fetchall()

        return access, count_partitions(ask, attempt_table(load.load_id, load.attempt), load.load_id, load.attempt)


def _open_batch(access: Access, load: Load) -> Batch:
    """Open the staged table. The URI stays in this closure: no configuration of Great Expectations ever holds it."""
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
    for place, check in enumerate(load.declaration.checks, len(name_builtin(load))):
        success, observed = observe(check, found[place], rows)
        column = check.arguments.get("column")
        yield CheckResult("declared", check.expect, None, column, check.severity, success, observed)


def _refuse_crash(load: Load, name: str, result: ExpectationValidationResult | None) -> None:
    # A result counts as false when its expectation failed: ask for None, not for its truth.
    crash = "it came to no result" if result is None else find_crash(result.exception_info)
    if crash is not None:
        raise _crashed(load, name, crash)


def find_crash(exception_info: dict[str, Any] | None) -> str | None:
    """Find out whether an expectation crashed: to Great Expectations a broken query is a failed expectation like any.

    What it knows is either one record, or one for each metric that crashed.
    """
    info = exception_info or {}
    records = [info] if "raised_exception" in info else [record for record in info.values() if isinstance(record, dict)]
    for record in records:
        if record.get("raised_exception"):
            return str(record.get("exception_message") or "it raised an exception")
    return None


def _crashed(load: Load, name: str, message: str) -> ChecksCrashedError:
    next_step = "if the database was away, try the validate step again; else fix the check in the declaration."
    if "permission denied" in message:
        next_step = (
            "name the tables that the check reads, besides the load's rows, under `checks_read` in the declaration."
        )
    return ChecksCrashedError(
        f"{name} crashed: {hide_values(message)} Nothing is decided: the load stays {load.state}.",
        pipeline=load.pipeline,
        load=load.load_id,
        next_step=next_step,
    )


def hide_values(message: str) -> str:
    """Keep the first line of an exception. An error of PostgreSQL that may quote a value of a row keeps its class only.

    PostgreSQL locates an error of the statement's text by a line, and an error of a value not at all: without a line,
    `relation "…" does not exist` is the value of a column that was cast to regclass.
    """
    line = " ".join(message.split("\n[SQL", 1)[0].split())
    located = re.search(r"\nLINE \d+:", message)
    for name in re.findall(r"\bpsycopg\.errors\.(\w+)", line):
        state = getattr(getattr(pg_errors, name, None), "sqlstate", None) or ""
        if not located and not state.startswith(NO_VALUES):
            return f"PostgreSQL stopped at a value ({name}, SQLSTATE {state})."
    return line[:500].rstrip(".") + "."
