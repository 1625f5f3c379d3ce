"""Preparing the target before a load is staged: it must fit the declaration, or it is refused with the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from penstock import advice
from penstock.errors import DeclarationError
from penstock.ledger.statements import read_statements
from penstock.target.postgres.brief_locks import Wanted, lock_in_tries
from penstock.target.postgres.table import (
    add_columns,
    describe_columns,
    find_free_name,
    join_names,
    make_way,
    query_target,
    read_columns,
    target_identifier,
    type_sql,
)

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.target.postgres.brief_locks import Mode


@dataclass(frozen=True, slots=True)
class Fit:
    """A target that fits: whether it is there, and the declared columns that it lacks."""

    is_there: bool
    lacking: tuple[str, ...] = ()


def examine_target(connection: Connection, pipeline: Pipeline) -> Fit:
    """Compare the target with the declaration and the ledger; nothing is changed.

    A DeclarationError says why no load can be published into it.
    """
    found = read_columns(connection, pipeline.target)
    if not found:
        _refuse_lost(connection, pipeline)
        return Fit(is_there=False)
    _refuse_other_kind(connection, pipeline)
    _refuse_obstacles(connection, pipeline)
    return Fit(is_there=True, lacking=tuple(compare_columns(pipeline, found)))


def _refuse_lost(connection: Connection, pipeline: Pipeline) -> None:
    """Refuse a target that was dropped or renamed: an empty one in its place would hide what is lost."""
    target = pipeline.target
    values = {"pipeline": pipeline.name, "schema": target.schema_name, "table": target.table_name}
    row = connection.execute(read_statements("target/postgres/table")["find_published"], values).fetchone()
    if not row or not row[0]:
        return
    loads, renamed, back = row
    seems = f" {' and '.join(renamed)} holds rows of them: it seems to be the target, renamed." if renamed else ""
    raise DeclarationError(
        f"the target {target} is not there, and {loads} loads are published in it.{seems} Nothing is created in its "
        "place.",
        pipeline=pipeline.name,
        next_step=advice.bring_target_back(back[0] if back else None),
    )


def _refuse_other_kind(connection: Connection, pipeline: Pipeline) -> None:
    """Refuse a target that is no table partitioned by load: nothing could be attached to it."""
    target = pipeline.target
    row = connection.execute(
        read_statements("target/postgres/table")["read_kind"],
        {"schema": target.schema_name, "table": target.table_name},
    ).fetchone()
    if row and not row[0]:
        raise DeclarationError(
            f"the target {target} exists and is no table partitioned by range (_load_id).",
            pipeline=pipeline.name,
            next_step=advice.DECLARE_NEW_TARGET,
        )


def _refuse_obstacles(connection: Connection, pipeline: Pipeline) -> None:
    """Refuse what somebody has added to the target, and what would stop a publish or keep rows from being replaced."""
    found = query_target(connection, "find_obstacles", pipeline.target).fetchall()
    if found:
        raise DeclarationError(
            f"the target {pipeline.target} has what no load can be published beside: "
            f"{', '.join(told for told, _ in found)}.",
            pipeline=pipeline.name,
            next_step=advice.remove_obstacles([remedy for _, remedy in found]),
        )


def compare_columns(pipeline: Pipeline, found: dict[str, tuple[str, bool]]) -> list[str]:
    """Find the declared columns that the target lacks; anything that cannot be added is refused."""
    wanted = describe_columns(pipeline)
    wrong = [
        f"column {name} is {found[name][0]}, declared as {type_}"
        for name, (type_, _) in wanted.items()
        if name in found and found[name][0] != type_
    ]
    wrong += [f"column {name} is required, and a target that exists can only gain nullable columns"
              for name, (_, required) in wanted.items() if name not in found and required]  # fmt: skip
    wrong += [f"column {name} of the target is not null, and is not declared (or not as required)"
              for name, (_, not_null) in found.items()
              if not_null and not wanted.get(name, ("", False))[1]]  # fmt: skip
    if wrong:
        raise DeclarationError(
            f"the target {pipeline.target} does not fit the declaration: {'; '.join(wrong)}.",
            pipeline=pipeline.name,
            next_step=advice.ALIGN_TARGET,
        )
    return [name for name in wanted if name not in found]


def ensure_table(connection: Connection, pipeline: Pipeline) -> None:
    """Create the target on first use; add to it the nullable columns that it lacks.

    The caller commits soon: readers of the target wait for the end of the transaction that added a column.
    """
    _lock_preparation(connection, pipeline)
    fit = examine_target(connection, pipeline)
    if not fit.is_there:
        _create_target(connection, pipeline)
    elif fit.lacking:
        make_way(connection, pipeline.target)
        lock_in_tries(connection, _want_all(connection, pipeline))
        types = describe_columns(pipeline)
        add_columns(connection, target_identifier(pipeline.target), [(name, types[name][0]) for name in fit.lacking])


def ensure_indexes(connection: Connection, pipeline: Pipeline) -> None:
    """Create the declared indexes that the target lacks; an index on the same columns serves under any name.

    A transaction of its own: building an index over rows takes time, and writers of the target wait for its end.
    """
    _lock_preparation(connection, pipeline)
    target = pipeline.target
    present = {tuple(columns) for (columns,) in query_target(connection, "read_indexed_columns", target)}
    for columns in pipeline.indexes:
        if columns in present:
            continue
        make_way(connection, target)
        lock_in_tries(connection, _want_all(connection, pipeline, "share"))
        name = find_free_name(connection, target.schema_name, f"{target.table_name}_{'_'.join(columns)}_idx")
        connection.execute(
            sql.SQL("create index {} on {} ({})").format(
                sql.Identifier(name), target_identifier(target), join_names(columns)
            )
        )


def _lock_preparation(connection: Connection, pipeline: Pipeline) -> None:
    """One process prepares a target at a time."""
    connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [str(pipeline.target)])


def _want_all(connection: Connection, pipeline: Pipeline, mode: Mode = "access exclusive") -> Wanted:
    leaves = [sql.Identifier(*found) for found in query_target(connection, "read_partitions", pipeline.target)]
    return Wanted(target_identifier(pipeline.target), tuple(leaves), mode, pipeline.name)


def _create_target(connection: Connection, pipeline: Pipeline) -> None:
    target = pipeline.target
    # PostgreSQL asks for the right to create schemas even if the schema is there.
    if connection.execute("select to_regnamespace(quote_ident(%s))", [target.schema_name]).fetchone() == (None,):
        connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(target.schema_name)))
    columns = sql.SQL(", ").join(
        sql.SQL("{} {} {}").format(sql.Identifier(name), type_sql(type_), sql.SQL("not null" if required else ""))
        for name, (type_, required) in describe_columns(pipeline).items()
    )
    connection.execute(
        sql.SQL("create table {} ({}) partition by range (_load_id)").format(target_identifier(target), columns)
    )
