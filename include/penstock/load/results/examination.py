"""The examination of declared results before a load needs them: their SQL is run on no row, and nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock import advice
from penstock.errors import DeclarationError, ResultError
from penstock.ledger.connection import describe_refusal
from penstock.ledger.pipeline import find_pipeline
from penstock.ledger.result import ResultState, read_results
from penstock.ledger.statements import Statements
from penstock.load.results import proof, statements, upsert
from penstock.load.results.change import Change
from penstock.load.results.tables import refuse_other_table
from penstock.quality.predicates import compose_no_rows

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.declaration.results import Result
    from penstock.ledger.connection import Connection

_statements = Statements("load/results/examination")

TRY_TIMEOUT = "20s"
ROWS, TABLE, GUARDS = (sql.Identifier("pg_temp", f"penstock_tried_{name}") for name in ("rows", "table", "guards"))


@dataclass(frozen=True, slots=True)
class TableRights:
    """Whether this role may create the table of a result, and change and replace one that exists."""

    may_create: bool
    is_owner: bool


def examine_result(connection: Connection, pipeline: Pipeline, result: Result) -> str:
    """Examine a result in a transaction of its own that is rolled back; a DeclarationError says what is wrong."""
    result = upsert.name_columns(pipeline, result)
    with connection.transaction(force_rollback=True):
        rights = _read_rights(connection, result)
        # PostgreSQL looks for no table in a schema that the role may not use.
        _refuse(pipeline, rights.may_create, f"create tables in the schema {result.table.schema_name}")
        refuse_other_table(connection, pipeline, result)
        _refuse(pipeline, rights.is_owner, f"change {result.table}, which belongs to another role")
        _try_result(connection, pipeline, result)
        notes = [_describe_state(connection, pipeline, result), *_describe_key(pipeline, result)]
    return "; ".join(notes)


def _read_rights(connection: Connection, result: Result) -> TableRights:
    where = {"schema": result.table.schema_name, "table": result.table.table_name}
    return _statements.fetch_only(connection, TableRights, "check_table_rights", **where)


def _refuse(pipeline: Pipeline, is_granted: bool, right: str) -> None:
    if not is_granted:
        raise DeclarationError(
            f"the role may not {right}.", pipeline=pipeline.name, next_step=advice.GRANT_RESULT_RIGHTS
        )


def _try_result(connection: Connection, pipeline: Pipeline, result: Result) -> None:
    """Run the SQL of a result with temporary tables that have no row, as the role of results."""
    try:
        connection.execute(sql.SQL("set local statement_timeout = {}").format(sql.Literal(TRY_TIMEOUT)))
        empty = sql.SQL("create temporary table {} as select * from {} n").format(
            sql.Identifier(ROWS._obj[1]), compose_no_rows(pipeline)
        )
        connection.execute(empty)
        change = Change(ROWS, (0, 0), ROWS)
        if result.mode == "upsert":
            upsert.create_tables(connection, pipeline, result, TABLE, GUARDS)
            upsert.apply_upsert(connection, result, TABLE, GUARDS, change)
        else:
            statements.create_table(connection, result, TABLE)
            statements.apply_statements(connection, result, TABLE, change)
            if result.check:
                proof.compare_statements(connection, result, TABLE, ROWS)
    except (ResultError, psycopg.Error) as error:
        words = error.what if isinstance(error, ResultError) else describe_refusal(error)
        raise DeclarationError(
            f"its SQL cannot run: {words.rstrip('.')}.", pipeline=pipeline.name, next_step=advice.CORRECT_RESULT_SQL
        ) from None  # the cause may quote a value


def _describe_state(connection: Connection, pipeline: Pipeline, result: Result) -> str:
    pipeline_id = find_pipeline(connection, pipeline.name)
    known = [] if pipeline_id is None else read_results(connection, pipeline_id)
    same = [each for each in known if each.table_name == str(result.table) and each.result.derives_like(result)]
    if any(each.state == ResultState.CURRENT for each in same):
        return "current"
    if same or known:
        return f"waits for `penstock rebuild {pipeline.name} {result.table}`"
    return "will be created, or rebuilt if rows are published"


def _describe_key(pipeline: Pipeline, result: Result) -> list[str]:
    """Describe what is allowed, but seldom meant: nulls in the key, and no index that finds the rows of a key."""
    if result.mode != "upsert":
        return []
    nullable = [each.name for each in pipeline.columns if each.name in result.key and not each.required]
    nulls = [f"a row with null in {', '.join(nullable)} has no place in it"] if nullable else []
    indexed = any(set(index[: len(result.key)]) == set(result.key) for index in pipeline.indexes)
    slow = [] if indexed else ["without an index on the key a rollback or replay reads all rows of the target"]
    return [*nulls, *slow]
