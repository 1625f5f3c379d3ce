"""The results of a pipeline: their tables are prepared before a load is staged, and change with the rows."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock import advice
from penstock.errors import DeclarationError, ResultError
from penstock.ledger.connection import describe_refusal, keep_cause
from penstock.ledger.dropped import count_dropped
from penstock.ledger.pipeline import lock_pipeline
from penstock.ledger.result import (
    KnownResult,
    ResultState,
    add_result,
    has_published,
    mark_changed,
    read_results,
    remove_results,
)
from penstock.ledger.statements import Statements
from penstock.load.results import statements, upsert
from penstock.load.results.writer import OF_STATEMENTS
from penstock.target.postgres.table import RESULT_SCHEMA, target_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.declaration.pipeline import Pipeline
    from penstock.declaration.results import Result
    from penstock.ledger.connection import Connection
    from penstock.load.results.change import Change
    from penstock.model.load import Load

_statements = Statements("load/results/tables")

MINUTE = 60.0  # seconds


def prepare_results(connection: Connection, pipeline: Pipeline) -> None:
    """Make the ledger's results those of the declaration, in the caller's transaction.

    A new result of a pipeline without published rows is current at once, and its table is created. Any other new or
    changed result waits for a rebuild; until then the table follows its earlier definition. The table of a result that
    is no longer declared stays as it is.
    """
    pipeline_id = lock_pipeline(connection, pipeline.name)
    if pipeline_id is None:
        return
    known = read_results(connection, pipeline_id)
    declared = {str(result.table): upsert.name_columns(pipeline, result) for result in pipeline.results}
    for each in known:
        if _is_outdated(each, declared):
            remove_results(connection, [each.result_id])
            drop_tables(connection, each.result_id)
    for name, result in declared.items():
        if any(each.table_name == name and each.result.derives_like(result) for each in known):
            continue
        if has_published(connection, pipeline_id):
            add_result(connection, pipeline_id, result, ResultState.WAITING)
            continue
        # Nothing is published, so the table of an earlier definition is empty.
        for each in known:
            if each.table_name == name:
                remove_results(connection, [each.result_id])
                drop_tables(connection, each.result_id)
        _create(connection, pipeline, add_result(connection, pipeline_id, result, ResultState.CURRENT), result)


def _is_outdated(known: KnownResult, declared: dict[str, Result]) -> bool:
    """Whether the ledger's row of a result has no use: it is not declared, or another definition waits by now."""
    result = declared.get(known.table_name)
    return result is None or (known.state != ResultState.CURRENT and not known.result.derives_like(result))


def _create(connection: Connection, pipeline: Pipeline, result_id: int, result: Result) -> None:
    table = target_identifier(result.table)
    refuse_other_table(connection, pipeline, result)
    ensure_schema(connection, result)
    connection.execute(sql.SQL("drop table if exists {}").format(table))
    create_tables(connection, pipeline, result_id, result, table)


def refuse_other_table(connection: Connection, pipeline: Pipeline, result: Result) -> None:
    """Refuse a table that exists and that no result of the pipeline has made: its rows would be lost."""
    table = target_identifier(result.table).as_string(None)
    if False in _statements.fetch_values(connection, bool, "is_own", table=table, comment=_describe(pipeline)):
        raise DeclarationError(
            f"the table {result.table} exists, and it is not a result of this pipeline.",
            pipeline=pipeline.name,
            next_step=advice.OTHER_RESULT_TABLE,
        )


def _describe(pipeline: Pipeline) -> str:
    """The comment on the tables of results, by which Penstock knows them again."""
    return f"A result of the pipeline {pipeline.name}"


def table_exists(connection: Connection, table: sql.Identifier) -> bool:
    """Whether a table exists."""
    return _statements.fetch_value(connection, bool, "table_exists", table=table.as_string(None))


def ensure_schema(connection: Connection, result: Result) -> None:
    """Create the schema of a result, if it does not exist."""
    # CREATE SCHEMA IF NOT EXISTS needs the right to create schemas even if the schema exists.
    if not _statements.fetch_value(connection, bool, "schema_exists", schema=result.table.schema_name):
        schema = sql.Identifier(result.table.schema_name)
        connection.execute(sql.SQL("create schema if not exists {}").format(schema))


def create_tables(
    connection: Connection, pipeline: Pipeline, result_id: int, result: Result, table: sql.Identifier
) -> None:
    """Create the table of a result under any name, and what belongs to it."""
    if result.mode == "upsert":
        upsert.create_tables(connection, pipeline, result, table, upsert.guards_table(result_id))
    else:
        statements.create_table(connection, result, table)
    comment = sql.SQL("comment on table {} is {}").format(table, sql.Literal(_describe(pipeline)))
    connection.execute(comment)


def drop_tables(connection: Connection, result_id: int) -> None:
    """Drop what belongs to a result beside its table."""
    for table in (building_table(result_id), upsert.guards_table(result_id)):
        connection.execute(sql.SQL("drop table if exists {}").format(table))


def building_table(result_id: int) -> sql.Identifier:
    """Name the table in which a result is rebuilt."""
    return sql.Identifier(RESULT_SCHEMA, f"building_{result_id}")


def list_updated(connection: Connection, pipeline_id: int) -> list[KnownResult]:
    """List the results that change with the rows. One that is being rebuilt changes too, beside the current one."""
    return [each for each in read_results(connection, pipeline_id) if each.state != ResultState.WAITING]


def update_results(connection: Connection, load: Load, known: list[KnownResult], change: Change) -> None:
    """Apply a change that a load makes to the results of its pipeline, in the caller's transaction."""
    for each in known:
        try:
            apply_or_refuse(connection, load.declaration, each, leave_to_rebuild(each, change))
        except ResultError as error:
            raise error.fill(load.pipeline, load.load_id, load.ranges) from None
    if known:
        mark_changed(connection, [each.result_id for each in known], load.load_id)


def apply_or_refuse(connection: Connection, pipeline: Pipeline, known: KnownResult, change: Change) -> None:
    """Apply a change; a ResultError has the server's words about statements that fail or take too long.

    A statement may run as long as a task of the pipeline: meanwhile no other load is published. A table that a person
    altered, so that it cannot be written, is an error of the result too.
    """
    try:
        with _limiting(connection, pipeline.timeout_minutes):
            apply_change(connection, known, change)
    except OF_STATEMENTS as error:
        raise _make_error(describe_refusal(error), pipeline, known) from keep_cause(error)
    except ResultError as error:
        raise _make_error(error.what, pipeline, known) from error.__cause__


def _make_error(what: str, pipeline: Pipeline, known: KnownResult) -> ResultError:
    next_step = advice.correct_result(pipeline.name, known.table_name)
    return ResultError(f"result {known.table_name}: {what}", pipeline=pipeline.name, next_step=next_step)


@contextmanager
def _limiting(connection: Connection, minutes: int) -> Iterator[None]:
    """Let PostgreSQL cancel each statement that runs too long. A cancellation by a person stays what it is."""
    seconds, began = minutes * MINUTE, time.monotonic()
    limit = sql.Literal(f"{max(1, round(seconds * 1000))}ms")
    connection.execute(sql.SQL("set local statement_timeout = {}").format(limit))
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        if time.monotonic() - began < seconds:
            raise
        raise ResultError(f"{describe_refusal(error)} (timeout_minutes: {minutes})") from error
    connection.execute("set local statement_timeout to default")


def leave_to_rebuild(known: KnownResult, change: Change) -> Change:
    """Leave out the rows of a load that a rebuild has not read yet: it will read them as they are then.

    An upsert needs no such care: whatever it knows of a key is found again in the target.
    """
    if known.built_until is None or known.build_to is None or known.result.mode == "upsert":
        return change
    return change.without(known.built_until, known.build_to)


def apply_change(connection: Connection, known: KnownResult, change: Change) -> None:
    """Apply a change to one result."""
    result, table = known.result, result_table(known)
    if result.mode == "upsert":
        has_dropped = change.removed is not None and count_dropped(connection, known.pipeline_id) > 0
        guards = upsert.guards_table(known.result_id)
        upsert.apply_upsert(connection, result, table, guards, change, has_dropped=has_dropped)
    else:
        statements.apply_statements(connection, result, table, change)


def result_table(known: KnownResult) -> sql.Identifier:
    """The table that a result is written to."""
    is_building = known.state == ResultState.BUILDING
    return building_table(known.result_id) if is_building else target_identifier(known.result.table)
