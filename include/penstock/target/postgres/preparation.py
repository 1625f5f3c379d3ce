"""Preparing the target before a load is staged: it must match the declaration, or an error gives the next step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from psycopg import sql

from penstock import advice
from penstock.errors import DeclarationError
from penstock.ledger.coverage import find_published
from penstock.ledger.statements import Statements
from penstock.target.postgres.leaves import end_merges
from penstock.target.postgres.locks import LockRequest, lock_in_tries
from penstock.target.postgres.lookup_index import ensure_lookup_indexes
from penstock.target.postgres.table import (
    add_columns,
    describe_columns,
    find_free_name,
    join_names,
    make_identifier,
    quote_target,
    read_columns,
    target_identifier,
    type_sql,
)

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.target.postgres.locks import Mode

_statements = Statements("target/postgres/preparation")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An addition to the target that stops a publish, or keeps rows from being replaced, and how to remove it."""

    obstacle: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Rights:
    """Whether this role may create leaves beside the target, and attach them to the target."""

    may_create: bool
    may_attach: bool


@dataclass(frozen=True, slots=True)
class Examined:
    """A target that loads can be published into: whether it exists, and the declared columns that it does not have."""

    exists: bool
    missing_columns: tuple[str, ...] = ()


def examine_target(connection: Connection, pipeline: Pipeline) -> Examined:
    """Compare the target with the declaration and the ledger; nothing is changed.

    A DeclarationError says why no load can be published into the target.
    """
    found = read_columns(connection, pipeline.target)
    if not found:
        _refuse_lost_target(connection, pipeline)
        return Examined(exists=False)
    _refuse_other_table(connection, pipeline)
    _refuse_obstacles(connection, pipeline)
    return Examined(exists=True, missing_columns=tuple(compare_columns(pipeline, found)))


def _refuse_lost_target(connection: Connection, pipeline: Pipeline) -> None:
    """Refuse a target that was dropped or renamed: an empty table in its place would hide the loss."""
    target = pipeline.target
    published = find_published(connection, pipeline.name, target.schema_name, target.table_name)
    if not published.loads:
        return
    tables, statements = published.renamed_tables, published.rename_statements
    renamed = (
        f" {' and '.join(tables)} holds rows of these loads: it seems to be the target, renamed." if tables else ""
    )
    raise DeclarationError(
        f"the target {target} does not exist, and {published.loads} loads are published in it.{renamed} Nothing is "
        "created in its place.",
        pipeline=pipeline.name,
        next_step=advice.bring_target_back(statements[0] if statements else None),
    )


def _refuse_other_table(connection: Connection, pipeline: Pipeline) -> None:
    """Refuse a target that is not a table partitioned by load: nothing can be attached to it."""
    target = pipeline.target
    where = {"schema": target.schema_name, "table": target.table_name}
    if False in _statements.fetch_values(connection, bool, "is_partitioned_by_load", **where):
        raise DeclarationError(
            f"the target {target} exists and is not a table partitioned by range (_load_id).",
            pipeline=pipeline.name,
            next_step=advice.DECLARE_NEW_TARGET,
        )


def _refuse_obstacles(connection: Connection, pipeline: Pipeline) -> None:
    """Refuse additions to the target that would stop a publish, or keep rows from being replaced."""
    found = _statements.fetch_all(connection, Obstacle, "find_obstacles", target=quote_target(pipeline.target))
    if found:
        raise DeclarationError(
            f"the target {pipeline.target} has additions that keep loads from being published: "
            f"{', '.join(each.obstacle for each in found)}.",
            pipeline=pipeline.name,
            next_step=advice.remove_obstacles([each.remedy for each in found]),
        )


def compare_columns(pipeline: Pipeline, found: dict[str, tuple[str, bool]]) -> list[str]:
    """Find the declared columns that the target does not have; refuse every other difference."""
    wanted = describe_columns(pipeline)
    wrong = [
        f"column {name} is {found[name][0]}, declared as {type_}"
        for name, (type_, _) in wanted.items()
        if name in found and found[name][0] != type_
    ]
    wrong += [f"column {name} is required, and only nullable columns can be added to an existing target"
              for name, (_, required) in wanted.items() if name not in found and required]  # fmt: skip
    wrong += [f"column {name} of the target is not null, and is not declared (or not as required)"
              for name, (_, not_null) in found.items()
              if not_null and not wanted.get(name, ("", False))[1]]  # fmt: skip
    if wrong:
        raise DeclarationError(
            f"the target {pipeline.target} does not match the declaration: {'; '.join(wrong)}.",
            pipeline=pipeline.name,
            next_step=advice.ALIGN_TARGET,
        )
    return [name for name in wanted if name not in found]


def find_missing_rights(connection: Connection, pipeline: Pipeline) -> list[str]:
    """Name the rights that this role needs on the target and does not have."""
    target = pipeline.target
    where = {"schema": target.schema_name, "table": target.table_name}
    rights = _statements.fetch_only(connection, Rights, "check_rights", **where)
    needed = {"create tables in its schema": rights.may_create, "own it": rights.may_attach}
    return [right for right, granted in needed.items() if not granted]


def ensure_table(connection: Connection, pipeline: Pipeline) -> None:
    """Create the target on first use, or add the nullable columns that it does not have.

    The caller commits soon: readers of the target wait for the end of a transaction that added a column.
    """
    _lock_preparation(connection, pipeline)
    examined = examine_target(connection, pipeline)
    if not examined.exists:
        _create_target(connection, pipeline)
    elif examined.missing_columns:
        end_merges(connection, pipeline.target)
        lock_in_tries(connection, _request_all(connection, pipeline))
        types = describe_columns(pipeline)
        added = [(name, types[name][0]) for name in examined.missing_columns]
        add_columns(connection, target_identifier(pipeline.target), added)


def ensure_indexes(connection: Connection, pipeline: Pipeline) -> None:
    """Create the declared indexes that the target does not have; an index on the same columns counts under any name.

    The indexes by which checks look up earlier loads are created as well.

    It runs in a transaction of its own: to build an index over rows takes time, and writers of the target wait for the
    end of the transaction.
    """
    _lock_preparation(connection, pipeline)
    target = pipeline.target
    present = _statements.fetch_values(connection, tuple, "read_indexed_columns", target=quote_target(target))
    for columns in pipeline.indexes:
        if columns in present:
            continue
        end_merges(connection, target)
        lock_in_tries(connection, _request_all(connection, pipeline, "share"))
        name = find_free_name(connection, target.schema_name, f"{target.table_name}_{'_'.join(columns)}_idx")
        connection.execute(
            sql.SQL("create index {} on {} ({})").format(
                sql.Identifier(name), target_identifier(target), join_names(columns)
            )
        )
    ensure_lookup_indexes(connection, pipeline, partial(_request_all, connection, pipeline))


def _lock_preparation(connection: Connection, pipeline: Pipeline) -> None:
    """Let one process at a time prepare a target."""
    _statements.execute(connection, "lock_preparation", target=str(pipeline.target))


def _request_all(connection: Connection, pipeline: Pipeline, mode: Mode = "access exclusive") -> LockRequest:
    """Request a lock on the target and on all of its partitions."""
    where = {"target": quote_target(pipeline.target)}
    partitions = _statements.fetch_all(connection, make_identifier, "read_partitions", **where)
    return LockRequest(target_identifier(pipeline.target), tuple(partitions), mode, pipeline.name)


def _create_target(connection: Connection, pipeline: Pipeline) -> None:
    target = pipeline.target
    # CREATE SCHEMA IF NOT EXISTS needs the right to create schemas even if the schema exists.
    if not _statements.fetch_value(connection, bool, "schema_exists", schema=target.schema_name):
        connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(target.schema_name)))
    columns = sql.SQL(", ").join(
        sql.SQL("{} {} {}").format(sql.Identifier(name), type_sql(type_), sql.SQL("not null" if required else ""))
        for name, (type_, required) in describe_columns(pipeline).items()
    )
    connection.execute(
        sql.SQL("create table {} ({}) partition by range (_load_id)").format(target_identifier(target), columns)
    )
