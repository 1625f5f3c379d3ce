"""The target table, and the tables that loads are staged in before they become a part of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from penstock import advice
from penstock.declaration.carried import carried_columns
from penstock.declaration.columns import parse_type
from penstock.errors import PenstockError, StageError
from penstock.ledger.roles import CHECKER
from penstock.ledger.statements import read_statements
from penstock.target.postgres.brief_locks import Wanted, lock_in_tries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import Cursor

    from penstock.declaration.pipeline import Pipeline, Target
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

STAGE_SCHEMA, KEPT_SCHEMA = "penstock_stage", "penstock_kept"
OWN_SCHEMAS = (STAGE_SCHEMA, KEPT_SCHEMA)
MOST_NAMESAKES = 1000


def attempt_table_name(load_id: int, attempt: int) -> str:
    """Name the table of one attempt, without its schema."""
    return f"load_{load_id}_{attempt}"


def attempt_table(load_id: int, attempt: int) -> sql.Identifier:
    """Name the table of one attempt."""
    return sql.Identifier(STAGE_SCHEMA, attempt_table_name(load_id, attempt))


def describe_columns(pipeline: Pipeline) -> dict[str, tuple[str, bool]]:
    """The columns of the target by name: type as PostgreSQL spells it, and whether it must not be null."""
    declared = {column.name: (column.type.sql, column.required) for column in pipeline.columns}
    return declared | {column.name: (column.type.sql, column.required) for column in carried_columns(pipeline.key)}


def query_target(connection: Connection, statement: str, target: Target) -> Cursor[Any]:
    """Run a statement of sql/target.sql that asks about the target."""
    name = target_identifier(target).as_string(None)
    return connection.execute(read_statements("target/postgres/table")[statement], {"target": name})


def find_free_name(connection: Connection, schema: str, wanted: str) -> str:
    """Fit a name into PostgreSQL's 63 bytes; a number is added if a table, an index or a type of the schema has it."""
    names = [shorten(wanted), *(shorten(f"{wanted}_{number}") for number in range(2, MOST_NAMESAKES))]
    values = {"schema": schema, "names": names}
    row = connection.execute(read_statements("target/postgres/table")["find_free_name"], values).fetchone()
    if row is None:
        raise PenstockError(
            f"the schema {schema} has {len(names)} tables, indexes or types named like {wanted}.",
            next_step=advice.RENAME_TABLES,
        )
    return str(row[0])


def read_columns(connection: Connection, target: Target) -> dict[str, tuple[str, bool]]:
    """Read the columns that the target has; none if it is not there."""
    rows = connection.execute(
        read_statements("target/postgres/table")["read_columns"],
        {"schema": target.schema_name, "table": target.table_name},
    )
    return {name: (type_, not_null) for name, type_, not_null in rows}


def add_columns(connection: Connection, table: sql.Identifier, columns: Iterable[tuple[str, str]]) -> None:
    """Add nullable columns, each a name and a type."""
    added = sql.SQL(", ").join(
        sql.SQL("add column {} {}").format(sql.Identifier(name), type_sql(type_)) for name, type_ in columns
    )
    connection.execute(sql.SQL("alter table {} {}").format(table, added))


def type_sql(type_: str) -> sql.SQL:
    """The type as a piece of SQL. Parsing it again is what makes it safe: only known spellings come out of it."""
    return sql.SQL(parse_type(type_).sql)


def target_identifier(target: Target) -> sql.Identifier:
    """Name the target."""
    return sql.Identifier(target.schema_name, target.table_name)


def shorten(name: str) -> str:
    """Fit a name into PostgreSQL's 63 bytes; what is cut off is replaced by a hash of the whole."""
    if len(name.encode()) <= 63:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return name.encode()[:54].decode(errors="ignore") + "_" + digest


def join_names(columns: tuple[str, ...]) -> sql.Composed:
    """Names of columns, with commas between them."""
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def create_attempt_table(connection: Connection, load: Load, attempt: int) -> None:
    """Create the table of one attempt."""
    table = attempt_table(load.load_id, attempt)
    create_leaf(connection, load.declaration.target, table, load.load_id, load.load_id + 1)


def create_leaf(connection: Connection, target: Target, table: sql.Identifier, from_load: int, until_load: int) -> None:
    """Create a table for rows of loads. Its CHECK is what later lets PostgreSQL attach it without reading it."""
    connection.execute(
        sql.SQL(
            "create table {} (like {} including defaults including storage including compression,"
            " check (_load_id >= {} and _load_id < {}))"
        ).format(table, target_identifier(target), sql.Literal(from_load), sql.Literal(until_load))
    )


def key_attempt_table(connection: Connection, load: Load, attempt: int) -> None:
    """Build the key and the indexes over the staged rows, and count them for the planner.

    The key proves that no offset was staged twice. Building it once over all rows costs less than keeping it up row by
    row.
    """
    table = attempt_table(load.load_id, attempt)
    connection.execute("set local maintenance_work_mem = '256MB'")
    try:
        connection.execute(sql.SQL("alter table {} add primary key (_partition, _offset)").format(table))
    except psycopg.errors.UniqueViolation as error:
        raise StageError(
            f"attempt {attempt} staged an offset twice: {error.diag.message_detail}",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.KEEP_ATTEMPT_AND_REPORT,
        ) from error
    for columns in load.declaration.indexes:
        connection.execute(sql.SQL("create index on {} ({})").format(table, join_names(columns)))
    connection.execute(sql.SQL("analyze {}").format(table))


def attach_attempt_table(connection: Connection, load: Load) -> None:
    """Make the rows of a load visible: its table becomes a partition of the target, whatever its size."""
    table = attempt_table(load.load_id, load.attempt)
    lock_in_tries(connection, Wanted(table, pipeline=load.pipeline, load=load.load_id))
    add_missing_columns(connection, load.declaration.target, table)
    revoke_checks(connection, table)
    attach_as_leaf(connection, load, table)


def attach_as_leaf(connection: Connection, load: Load, table: sql.Identifier) -> None:
    """Move a table that holds a load beside the target, and attach it."""
    target = load.declaration.target
    name = find_free_name(connection, target.schema_name, f"{target.table_name}_load_{load.load_id}")
    leaf = move_table(connection, table, target.schema_name, name)
    attach_leaf(connection, target, leaf, load.load_id, load.load_id + 1)


def add_missing_columns(connection: Connection, target: Target, table: sql.Identifier) -> None:
    """Add to a table what the target has gained since it was made: null in rows from before, as in every other leaf."""
    parent = target_identifier(target)
    # As ATTACH does next: nobody adds another column meanwhile.
    connection.execute(sql.SQL("lock table only {} in share update exclusive mode").format(parent))
    missing = connection.execute(
        read_statements("target/postgres/table")["find_missing_columns"],
        {"target": parent.as_string(None), "table": table.as_string(None)},
    )
    columns = missing.fetchall()
    if columns:
        add_columns(connection, table, columns)


def revoke_checks(connection: Connection, table: sql.Identifier) -> None:
    """Take from the checks what the validate step let them read: the rows become a part of the target."""
    values = {"table": table.as_string(None), "role": CHECKER}
    granted = connection.execute(read_statements("quality/checker")["is_granted"], values).fetchone()
    if granted == (True,):
        connection.execute(sql.SQL("revoke select on {} from {}").format(table, sql.Identifier(CHECKER)))


def attach_leaf(connection: Connection, target: Target, leaf: sql.Identifier, from_load: int, until_load: int) -> None:
    """Make a table a partition of the target; its CHECK is what lets PostgreSQL do so without reading it.

    PostgreSQL locks a default partition for it, which somebody may have made by hand, and which readers of the target
    read.
    """
    for default in find_default(connection, target):
        lock_in_tries(connection, Wanted(default))
    connection.execute(
        sql.SQL("alter table {} attach partition {} for values from ({}) to ({})").format(
            target_identifier(target), leaf, sql.Literal(from_load), sql.Literal(until_load)
        )
    )


def find_default(connection: Connection, target: Target) -> tuple[sql.Identifier, ...]:
    """Find the default partition of the target, if it has one."""
    return tuple(sql.Identifier(*found) for found in query_target(connection, "read_default_partition", target))


def make_way(connection: Connection, target: Target) -> None:
    """End a merge that copies leaves of the target, before they are changed: it can wait, and whoever asks cannot.

    No merge takes hold of a leaf while somebody else has the lock of plan and publish: who has it comes through.
    """
    values = {"target": target_identifier(target).as_string(None)}
    connection.execute(read_statements("target/postgres/table")["end_merges"], values)


def move_table(connection: Connection, table: sql.Identifier, schema: str, name: str) -> sql.Identifier:
    """Give a table another name, in another schema.

    It is renamed in whichever of the two schemas is Penstock's own: there nobody else has taken the name. Its indexes
    come with it, under other names where theirs are taken.
    """
    before, old = table._obj
    values = {"table": table.as_string(None), "schema": schema}
    taken = connection.execute(read_statements("target/postgres/table")["find_taken_indexes"], values).fetchall()
    for (index,) in taken:
        free = find_free_name(connection, schema, f"{name}_{index}")
        connection.execute(
            sql.SQL("alter index {} rename to {}").format(sql.Identifier(before, index), sql.Identifier(free))
        )
    rename, move = sql.SQL("alter table {} rename to {}"), sql.SQL("alter table {} set schema {}")
    if before in OWN_SCHEMAS:
        connection.execute(rename.format(table, sql.Identifier(name)))
        connection.execute(move.format(sql.Identifier(before, name), sql.Identifier(schema)))
    else:
        connection.execute(move.format(table, sql.Identifier(schema)))
        connection.execute(rename.format(sql.Identifier(schema, old), sql.Identifier(name)))
    return sql.Identifier(schema, name)


def sweep_attempt_tables(connection: Connection) -> list[str]:
    """Drop the tables of attempts that nobody needs any more; what a zombie still writes to is left for next time."""
    swept = []
    stale = connection.execute(read_statements("target/postgres/table")["find_stale_tables"]).fetchall()
    for (name,) in stale:
        try:
            with connection.transaction():
                connection.execute("set local lock_timeout = '200ms'")
                connection.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(STAGE_SCHEMA, name)))
                swept.append(name)
        except psycopg.errors.LockNotAvailable:
            continue
    return swept
