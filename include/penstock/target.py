"""The target table, and the tables that loads are staged in before they become a part of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from penstock.brief_locks import Wanted, lock_in_tries
from penstock.columns import parse_type
from penstock.errors import DeclarationError, PenstockError, StageError
from penstock.statements import read_statements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import Cursor

    from penstock.brief_locks import Mode
    from penstock.ledger import Connection, Load
    from penstock.pipeline import Pipeline, Target

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
    carried = {
        "_load_id": ("bigint", True),
        "_partition": ("integer", True),
        "_offset": ("bigint", True),
        "_timestamp": ("timestamp with time zone", False),
    }
    key = {"_key": ("text" if pipeline.key == "text" else "bytea", False)} if pipeline.key else {}
    return declared | carried | key


def ensure_table(connection: Connection, pipeline: Pipeline) -> None:
    """Create the target on first use; add to it the nullable columns that it lacks.

    The caller commits soon: readers of the target wait for the end of the transaction that added a column.
    """
    _lock_preparation(connection, pipeline)
    found = read_columns(connection, pipeline.target)
    if not found:
        _create_target(connection, pipeline)
        return
    refuse_other_kind(connection, pipeline)
    missing = compare_columns(pipeline, found)
    if missing:
        make_way(connection, pipeline.target)
        lock_in_tries(connection, _want_all(connection, pipeline))
        types = describe_columns(pipeline)
        _add_columns(connection, target_identifier(pipeline.target), [(name, types[name][0]) for name in missing])


def ensure_indexes(connection: Connection, pipeline: Pipeline) -> None:
    """Create the declared indexes that the target lacks; an index on the same columns serves under any name.

    A transaction of its own: building an index over rows takes time, and writers of the target wait for its end.
    """
    _lock_preparation(connection, pipeline)
    target = pipeline.target
    present = {tuple(columns) for (columns,) in _query(connection, "read_indexed_columns", target)}
    for columns in pipeline.indexes:
        if columns in present:
            continue
        make_way(connection, target)
        lock_in_tries(connection, _want_all(connection, pipeline, "share"))
        name = find_free_name(connection, target.schema_name, f"{target.table_name}_{'_'.join(columns)}_idx")
        connection.execute(
            sql.SQL("create index {} on {} ({})").format(
                sql.Identifier(name), target_identifier(target), _join(columns)
            )
        )


def _lock_preparation(connection: Connection, pipeline: Pipeline) -> None:
    """One process prepares a target at a time."""
    connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [str(pipeline.target)])


def _want_all(connection: Connection, pipeline: Pipeline, mode: Mode = "access exclusive") -> Wanted:
    leaves = [sql.Identifier(*found) for found in _query(connection, "read_partitions", pipeline.target)]
    return Wanted(target_identifier(pipeline.target), tuple(leaves), mode, pipeline.name)


def _query(connection: Connection, statement: str, target: Target) -> Cursor[Any]:
    name = target_identifier(target).as_string(None)
    return connection.execute(read_statements("target")[statement], {"target": name})


def find_free_name(connection: Connection, schema: str, wanted: str) -> str:
    """Fit a name into PostgreSQL's 63 bytes; a number is added if a table, an index or a type of the schema has it."""
    names = [shorten(wanted), *(shorten(f"{wanted}_{number}") for number in range(2, MOST_NAMESAKES))]
    values = {"schema": schema, "names": names}
    row = connection.execute(read_statements("target")["find_free_name"], values).fetchone()
    if row is None:
        raise PenstockError(
            f"the schema {schema} has {len(names)} tables, indexes or types named like {wanted}.",
            next_step="rename some of them, then try again.",
        )
    return str(row[0])


def read_columns(connection: Connection, target: Target) -> dict[str, tuple[str, bool]]:
    """Read the columns that the target has; none if it is not there."""
    rows = connection.execute(
        read_statements("target")["read_columns"],
        {"schema": target.schema_name, "table": target.table_name},
    )
    return {name: (type_, not_null) for name, type_, not_null in rows}


def refuse_other_kind(connection: Connection, pipeline: Pipeline) -> None:
    """Refuse a target that is no table partitioned by load: nothing could be attached to it."""
    target = pipeline.target
    row = connection.execute(
        read_statements("target")["read_kind"], {"schema": target.schema_name, "table": target.table_name}
    ).fetchone()
    if row and not row[0]:
        raise DeclarationError(
            f"the target {target} exists and is no table partitioned by range (_load_id).",
            pipeline=pipeline.name,
            next_step="declare a target that does not exist yet; Penstock creates it.",
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
            next_step="change the declaration, or the table, or declare another target.",
        )
    return [name for name in wanted if name not in found]


def _create_target(connection: Connection, pipeline: Pipeline) -> None:
    target = pipeline.target
    connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(target.schema_name)))
    columns = sql.SQL(", ").join(
        sql.SQL("{} {} {}").format(sql.Identifier(name), type_sql(type_), sql.SQL("not null" if required else ""))
        for name, (type_, required) in describe_columns(pipeline).items()
    )
    connection.execute(
        sql.SQL("create table {} ({}) partition by range (_load_id)").format(target_identifier(target), columns)
    )


def _add_columns(connection: Connection, table: sql.Identifier, columns: Iterable[tuple[str, str]]) -> None:
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


def _join(columns: tuple[str, ...]) -> sql.Composed:
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
            next_step="this is a defect of Penstock; keep the attempt's table and report it.",
        ) from error
    for columns in load.declaration.indexes:
        connection.execute(sql.SQL("create index on {} ({})").format(table, _join(columns)))
    connection.execute(sql.SQL("analyze {}").format(table))


def attach_attempt_table(connection: Connection, load: Load) -> None:
    """Make the rows of a load visible: its table becomes a partition of the target, whatever its size."""
    table = attempt_table(load.load_id, load.attempt)
    lock_in_tries(connection, Wanted(table, pipeline=load.pipeline, load=load.load_id))
    add_missing_columns(connection, load.declaration.target, table)
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
        read_statements("target")["find_missing_columns"],
        {"target": parent.as_string(None), "table": table.as_string(None)},
    )
    columns = missing.fetchall()
    if columns:
        _add_columns(connection, table, columns)


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
    return tuple(sql.Identifier(*found) for found in _query(connection, "read_default_partition", target))


def make_way(connection: Connection, target: Target) -> None:
    """End a merge that copies leaves of the target, before they are changed: it can wait, and whoever asks cannot.

    No merge takes hold of a leaf while somebody else has the lock of plan and publish: who has it comes through.
    """
    values = {"target": target_identifier(target).as_string(None)}
    connection.execute(read_statements("target")["end_merges"], values)


def move_table(connection: Connection, table: sql.Identifier, schema: str, name: str) -> sql.Identifier:
    """Give a table another name, in another schema.

    It is renamed in whichever of the two schemas is Penstock's own: there nobody else has taken the name. Its indexes
    come with it, under other names where theirs are taken.
    """
    before, old = table._obj
    values = {"table": table.as_string(None), "schema": schema}
    taken = connection.execute(read_statements("target")["find_taken_indexes"], values).fetchall()
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
    stale = connection.execute(read_statements("target")["find_stale_tables"]).fetchall()
    for (name,) in stale:
        try:
            with connection.transaction():
                connection.execute("set local lock_timeout = '200ms'")
                connection.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(STAGE_SCHEMA, name)))
                swept.append(name)
        except psycopg.errors.LockNotAvailable:
            continue
    return swept
