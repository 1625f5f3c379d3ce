"""Upsert: a table with the newest row of each key.

Within a partition the higher offset wins. Between partitions the newest rows of the partitions are compared, and the
later timestamp wins. So the winner depends on the rows alone, and never on the order in which loads are published. Rows
that do not win but may win later are kept beside the table: deletions, and the newest rows of other partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from penstock import advice
from penstock.declaration.carried import TOMBSTONE_NAME, UPSERT_CARRIED
from penstock.declaration.results import TOMBSTONE
from penstock.errors import WrongUseError
from penstock.ledger.statements import Statements
from penstock.load.results.writer import run_as_writer
from penstock.target.postgres.table import (
    RESULT_SCHEMA,
    describe_columns,
    join_names,
    target_identifier,
    type_sql,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.declaration.pipeline import Pipeline
    from penstock.declaration.results import Result
    from penstock.ledger.connection import Connection
    from penstock.load.results.change import Change

_statements = Statements("load/results/upsert")

# Sorts and joins of a million keys stay in memory. With PostgreSQL's 4 MB a publish of them took twice as long.
MEMORY = "set local work_mem = '128MB'"
KEPT_SINCE = sql.SQL("_kept_since timestamptz not null default now()")
# A record of Kafka may have no timestamp.
NOT_NULL = dict.fromkeys(("_generation", "_partition", "_offset"), "not null")


def guards_table(result_id: int) -> sql.Identifier:
    """Name the table of the rows that are kept beside a result."""
    return sql.Identifier(RESULT_SCHEMA, f"guards_{result_id}")


def name_columns(pipeline: Pipeline, result: Result) -> Result:
    """Name the columns of an upsert that leaves them out: all declared columns besides its key."""
    if result.columns is not None:
        return result
    names = [column.name for column in pipeline.columns if column.name not in result.key]
    return result.model_copy(update={"columns": tuple((name, name) for name in names)})


def create_tables(
    connection: Connection, pipeline: Pipeline, result: Result, table: sql.Identifier, guards: sql.Identifier
) -> None:
    """Create the table of an upsert, with room on its pages for new versions of rows, and the table beside it."""
    types = {name: type_ for name, (type_, _) in describe_columns(pipeline).items()}
    columns = {name: types[name] for name in result.key}
    columns |= {name: types[source] for name, source in result.columns or ()} | UPSERT_CARRIED
    described = sql.SQL(", ").join(
        sql.SQL("{} {} {}").format(sql.Identifier(name), type_sql(type_), sql.SQL(NOT_NULL.get(name, "")))
        for name, type_ in columns.items()
    )
    key = join_names(result.key)
    connection.execute(
        sql.SQL("create table {} ({}, primary key ({})) with (fillfactor = 80)").format(table, described, key)
    )
    connection.execute(
        sql.SQL(
            "create table {} ({}, _deleted boolean not null, {}, primary key ({}, _generation, _partition))"
        ).format(guards, described, KEPT_SINCE, key)
    )


def apply_upsert(
    connection: Connection,
    result: Result,
    table: sql.Identifier,
    guards: sql.Identifier,
    change: Change,
    *,
    has_dropped: bool = False,
) -> None:
    """Apply a change of the target's rows to an upsert, in the caller's transaction.

    `has_dropped` says that older rows of the target were dropped: what the result knows of them counts, and a change
    that would need such rows themselves is refused.
    """
    pieces = make_pieces(result, table, guards)
    connection.execute(MEMORY)
    if change.removed is not None:
        _run(connection, "find_removed_keys", pieces | {"removed": change.removed})
        _search_affected(connection, pieces, change, has_dropped=has_dropped)
        connection.execute("drop table penstock_ranked, penstock_tops")
    else:
        connection.execute(
            sql.SQL("create temporary table penstock_affected on commit drop as select {} from {} with no data").format(
                pieces["key"], table
            )
        )
    if change.added:
        _add_rows(connection, pieces, change)
        connection.execute("drop table penstock_ranked, penstock_tops")
    connection.execute("drop table penstock_affected")


def rank_rows(
    connection: Connection,
    result: Result,
    table: sql.Identifier,
    guards: sql.Identifier,
    target: sql.Identifier,
    share: float,
) -> None:
    """Rank the rows of the target for a share of the keys, in the table `penstock_ranked`, and change nothing."""
    pieces = make_pieces(result, table, guards)
    rows = {"target": target, "hash": hash_key(pieces["row_key"]), "below": sql.Literal(hash_bound(share))}
    _run(connection, "name_rows_of_share", pieces | rows)
    _pick_tops(connection, pieces)
    _run(connection, "find_all_keys", pieces)
    _run(connection, "rank_tops", pieces)


def drop_guards(connection: Connection, result: Result, guards: sql.Identifier, days: int) -> int:
    """Drop the guards of deleted keys that are older than so many days, in the caller's transaction."""
    table = target_identifier(result.table)
    pieces = {
        "table": table,
        "guards": guards,
        "key": qualify("g", result.key),
        "row_key": qualify("r", result.key),
        "other_key": qualify("o", result.key),
    }
    # The guards of a result from before the times of guards have none yet.
    if not _statements.fetch_value(connection, bool, "has_times", guards=guards.as_string(None)):
        connection.execute(sql.SQL("alter table {} add column {}").format(guards, KEPT_SINCE))
    return _statements.execute(connection, "drop_guards", pieces, days=days)


def drop_ranked(connection: Connection) -> None:
    """Drop what `rank_rows` has made."""
    connection.execute("drop table penstock_ranked, penstock_tops, penstock_affected")


def hash_key(key: sql.Composable) -> sql.Composed:
    """The hash by which a share of the keys is chosen."""
    return sql.SQL("hash_record_extended(row({}), 0)").format(key)


def hash_bound(share: float) -> int:
    """The bound of the hashes, of a million, for a share."""
    return round(share * 1_000_000)


def _search_affected(
    connection: Connection, pieces: dict[str, sql.Composable], change: Change, *, has_dropped: bool
) -> None:
    """Find the winners of the affected keys among the rows of the target."""
    connection.execute("analyze penstock_affected")
    _run(connection, "name_rows_of_keys", pieces | {"target": change.target})
    _pick_tops(connection, pieces)
    if has_dropped:
        _add_dropped(connection, pieces)
    _settle(connection, pieces)


def _add_dropped(connection: Connection, pieces: dict[str, sql.Composable]) -> None:
    """Add the rows that the result knows and the target no longer has; refuse keys whose next row may be dropped."""
    lost = _statements.fetch_value(connection, int, "count_lost_keys", pieces)
    if lost:
        raise WrongUseError(
            f"{lost} keys of a result would need rows that were dropped (keep_rows_days), to find their newest row "
            "again; nothing is changed.",
            next_step=advice.ROWS_DROPPED,
        )
    _run(connection, "add_dropped_tops", pieces)


def _add_rows(connection: Connection, pieces: dict[str, sql.Composable], change: Change) -> None:
    """Merge the rows of a load."""
    where = sql.SQL("").format()
    if change.removed is not None:
        # An anti-join. NOT IN would search the whole list for each row, if the list does not fit into memory.
        where = sql.SQL("and not exists (select from penstock_affected a where ({}) = ({}))").format(
            pieces["affected_key"], pieces["row_key"]
        )
    rows = {"target": change.target, "added": change.select_added(), "except_affected": where}
    _run(connection, "name_added_rows", pieces | rows)
    _pick_tops(connection, pieces)
    connection.execute("truncate penstock_affected")
    _run(connection, "add_contested_keys", pieces)
    connection.execute("analyze penstock_affected")
    _run(connection, "upsert_plain", pieces)
    _run(connection, "add_known_tops", pieces)
    _settle(connection, pieces)


def _pick_tops(connection: Connection, pieces: dict[str, sql.Composable]) -> None:
    _run(connection, "prepare_tops", pieces)
    statement = sql.SQL(_statements.texts["pick_tops"]).format(**pieces)
    run_as_writer(connection, statement, reads=["penstock_rows"], writes=["penstock_tops"])
    connection.execute("drop view penstock_rows")
    connection.execute("analyze penstock_tops")


def _settle(connection: Connection, pieces: dict[str, sql.Composable]) -> None:
    """Write the winners of the affected keys, and keep the rows that may win later."""
    for name in ("rank_tops", "remove_affected", "remove_affected_guards", "write_winners", "keep_others"):
        _run(connection, name, pieces)


def _run(connection: Connection, name: str, pieces: dict[str, sql.Composable]) -> None:
    _statements.execute(connection, name, pieces)


def make_pieces(result: Result, table: sql.Identifier, guards: sql.Identifier) -> dict[str, sql.Composable]:
    values = dict(result.columns or ())
    others = [*values, *UPSERT_CARRIED]
    sources = [*result.key, *values.values(), *UPSERT_CARRIED]
    return {
        "table": table,
        "guards": guards,
        "key": join_names(result.key),
        "columns": join_names([*result.key, *others]),
        "sources": join_names(sources),
        "deleted": sql.SQL(_write_deleted(result)),
        "row_key": qualify("r", result.key),
        "top_key": qualify("t", result.key),
        "affected_key": qualify("a", result.key),
        "winner_key": qualify("w", result.key),
        "known_key": qualify("k", result.key),
        "old_values": qualify("r", others),
        "new_values": qualify("excluded", others),
        "assignments": sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others
        ),
    }


def _write_deleted(result: Result) -> str:
    """Write the condition of deletions. A row from before `tombstones: keep` has null in `_tombstone`."""
    if result.deleted_when == TOMBSTONE:
        return f"{TOMBSTONE_NAME} is true"
    return result.deleted_when or "false"


def qualify(alias: str, names: Iterable[str]) -> sql.Composed:
    """Join columns of an alias with commas."""
    return sql.SQL(", ").join(sql.Identifier(alias, name) for name in names)
