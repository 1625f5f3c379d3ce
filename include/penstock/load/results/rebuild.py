"""Rebuilding a result from the rows of the target, in pieces, while loads continue.

The new table is filled beside the current one. Each piece holds the lock of the pipeline for a moment, and every load
that is published meanwhile changes both tables. The last transaction makes the current table equal to the new one: it
writes the rows that differ, so no reader waits, and grants and views stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock import advice
from penstock.declaration.carried import UPSERT_CARRIED
from penstock.errors import PenstockError, WrongUseError
from penstock.ledger import result as ledger_result
from penstock.ledger.connection import open_ledger
from penstock.ledger.dropped import count_dropped
from penstock.ledger.event import record_pipeline_event
from penstock.ledger.pipeline import lock_pipeline
from penstock.ledger.result import ResultState
from penstock.ledger.statements import Statements
from penstock.load.results import upsert
from penstock.load.results.change import Change
from penstock.load.results.tables import (
    apply_or_refuse,
    building_table,
    create_tables,
    drop_tables,
    ensure_schema,
    refuse_other_table,
    table_exists,
)
from penstock.target.postgres.leaves import move_table
from penstock.target.postgres.locks import LockRequest, lock_in_tries
from penstock.target.postgres.table import find_free_name, join_names, target_identifier
from penstock.target.registry import find_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.declaration.pipeline import Pipeline
    from penstock.declaration.results import Result
    from penstock.ledger.connection import Connection
    from penstock.ledger.result import KnownResult, Piece

# A publish waits for one piece at most; smaller pieces cost more statements.
ROWS_OF_PIECE = 500_000

_statements = Statements("load/results/rebuild")


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A rebuilt result: the rows of the target that were read, and the rows of the table that differed."""

    table: str
    rows: int
    written: int
    deleted: int

    @property
    def message(self) -> str:
        """The rebuild in words."""
        return (
            f"{self.table} is rebuilt from {self.rows:,} rows; {self.written:,} rows of it were written, "
            f"{self.deleted:,} deleted."
        )


def rebuild_result(uri: str, pipeline: Pipeline, table: str, who: str, report: Callable[[str], None]) -> Rebuilt:
    """Rebuild a declared result. A rebuild that was interrupted continues where it stopped."""
    result = _find_declared(pipeline, table)
    with open_ledger(uri) as connection:
        # A column of a changed declaration is added now: the new result may read it.
        find_store(pipeline).prepare(connection)
        connection.commit()
        known = _begin(connection, pipeline, result)
        connection.commit()
        rows = 0
        while (piece := _read_piece(connection, pipeline, known.result_id)).until_load is not None:
            connection.commit()
            rows += piece.rows
            report(f"{table}: {rows:,} rows are read, up to load {piece.until_load}")
        written, deleted = _switch(connection, pipeline, known.result_id)
        record_pipeline_event(connection, who, known.pipeline_id, "result rebuilt", table)
        connection.commit()
    return Rebuilt(table, rows, written, deleted)


def _find_declared(pipeline: Pipeline, table: str) -> Result:
    declared = {str(result.table): result for result in pipeline.results}
    if table not in declared:
        raise WrongUseError(
            f"{table} is not a result.", pipeline=pipeline.name, next_step=advice.name_result(list(declared))
        )
    return upsert.name_columns(pipeline, declared[table])


def _begin(connection: Connection, pipeline: Pipeline, result: Result) -> KnownResult:
    """Begin a rebuild, or find the one that was interrupted."""
    pipeline_id = lock_pipeline(connection, pipeline.name)
    if pipeline_id is None:
        raise WrongUseError(
            "it has loaded nothing yet.", pipeline=pipeline.name, next_step=advice.run_pipeline_or_dag(pipeline.name)
        )
    dropped = count_dropped(connection, pipeline_id)
    if dropped:
        raise WrongUseError(
            f"the rows of {dropped} loads were dropped (keep_rows_days); {result.table} would need all rows.",
            pipeline=pipeline.name,
            next_step=advice.ROWS_DROPPED_OF_RESULT,
        )
    refuse_other_table(connection, pipeline, result)
    known = [each for each in ledger_result.read_results(connection, pipeline_id)
             if each.table_name == str(result.table) and each.state != ResultState.CURRENT]  # fmt: skip
    for each in known:
        if each.state == ResultState.BUILDING and each.result.derives_like(result):
            return each
        drop_tables(connection, each.result_id)
    ledger_result.remove_results(connection, [each.result_id for each in known])
    result_id = ledger_result.begin_building(connection, pipeline_id, result)
    create_tables(connection, pipeline, result_id, result, building_table(result_id))
    return _read(connection, pipeline_id, result_id)


def _read(connection: Connection, pipeline_id: int, result_id: int) -> KnownResult:
    """Read a rebuild. Its row is a current one, or missing, if another process has ended the same rebuild."""
    for each in ledger_result.read_results(connection, pipeline_id):
        if each.result_id == result_id and each.state == ResultState.BUILDING:
            return each
    raise WrongUseError("another process has finished or replaced this rebuild.", next_step=advice.LOOK_AT_RESULTS)


def _read_piece(connection: Connection, pipeline: Pipeline, result_id: int) -> Piece:
    """Read the rows of the next loads, in the caller's transaction. No load is published meanwhile."""
    pipeline_id = lock_pipeline(connection, pipeline.name) or 0
    known = _read(connection, pipeline_id, result_id)
    piece = ledger_result.find_piece(connection, known, ROWS_OF_PIECE)
    if piece.until_load is not None:
        change = Change(target_identifier(pipeline.target), ((known.built_until or 0) + 1, piece.until_load))
        apply_or_refuse(connection, pipeline, known, change)
        ledger_result.mark_built(connection, result_id, piece.until_load)
    return piece


def _switch(connection: Connection, pipeline: Pipeline, result_id: int) -> tuple[int, int]:
    """Make the rebuilt table the current one, in the caller's transaction; the rows that were written and deleted."""
    pipeline_id = lock_pipeline(connection, pipeline.name) or 0
    known = _read(connection, pipeline_id, result_id)
    result, built = known.result, building_table(result_id)
    earlier = [each for each in ledger_result.read_results(connection, pipeline_id)
               if each.table_name == known.table_name and each.result_id != result_id]  # fmt: skip
    if _has_columns_of(connection, result, built):
        changed = _equalize(connection, result, built)
    else:
        changed = _replace(connection, pipeline, result, built)
    ledger_result.remove_results(connection, [each.result_id for each in earlier])
    for each in earlier:
        drop_tables(connection, each.result_id)
    ledger_result.finish_building(connection, result_id)
    return changed


def _has_columns_of(connection: Connection, result: Result, built: sql.Identifier) -> bool:
    """Whether the current table exists with the columns and the primary key of the new one."""
    names = {"one": target_identifier(result.table).as_string(None), "other": built.as_string(None)}
    return _statements.fetch_value(connection, bool, "has_same_columns", **names)


def _equalize(connection: Connection, result: Result, built: sql.Identifier) -> tuple[int, int]:
    """Make the current table equal to the new one. Readers see the rows of before until the COMMIT."""
    names = [*result.key, *(name for name, _ in result.columns or () if name not in result.key)]
    if result.mode == "upsert":
        names += UPSERT_CARRIED
    others = [name for name in names if name not in result.key]
    pieces = {
        "table": target_identifier(result.table),
        "built": built,
        "key": join_names(result.key),
        "columns": join_names(names),
        "old_key": upsert.qualify("r", result.key),
        "new_key": upsert.qualify("b", result.key),
        "old": upsert.qualify("r", names),
        "new": upsert.qualify("b", names),
        "assignments": sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others or names
        ),
    }
    deleted = _statements.execute(connection, "delete_extra_rows", pieces)
    written = _statements.execute(connection, "write_other_rows", pieces)
    connection.execute(sql.SQL("drop table {}").format(built))
    return written, deleted


def _replace(connection: Connection, pipeline: Pipeline, result: Result, built: sql.Identifier) -> tuple[int, int]:
    """Put the new table in the place of one with other columns, or of none."""
    table = target_identifier(result.table)
    # Counted before the old table is locked: readers of it wait from then on.
    rows = _statements.fetch_value(connection, int, "count_rows", {"built": built})
    if table_exists(connection, table):
        lock_in_tries(connection, LockRequest(table, pipeline=pipeline.name))
        try:
            connection.execute(sql.SQL("drop table {}").format(table))
        except psycopg.errors.DependentObjectsStillExist as error:
            raise PenstockError(
                f"other objects depend on {result.table}, whose columns change: {error.diag.message_detail}",
                pipeline=pipeline.name,
                next_step=advice.DROP_DEPENDENT_VIEWS,
            ) from error
    ensure_schema(connection, result)
    move_table(connection, built, result.table.schema_name, result.table.table_name)
    key_name = find_free_name(connection, result.table.schema_name, f"{result.table.table_name}_pkey")
    rename = sql.SQL("alter table {} rename constraint {} to {}")
    connection.execute(rename.format(table, sql.Identifier(f"{built._obj[1]}_pkey"), sql.Identifier(key_name)))
    return rows, 0
