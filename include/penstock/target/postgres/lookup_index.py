"""Indexes for the checks that look up keys and ids in earlier loads.

A long text is in such an index as its hash of eight bytes, so that the index stays small and takes values of any
length. A comment on the index of the target holds its terms, by which the index is found again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.declaration.lookups import Lookup, find_lookups
from penstock.ledger.statements import Statements
from penstock.target.postgres.leaves import end_merges
from penstock.target.postgres.locks import LockRequest, lock_in_tries
from penstock.target.postgres.table import describe_columns, find_free_name, quote_target, target_identifier

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.target.postgres.locks import Mode

_statements = Statements("target/postgres/lookup_index")

# Types whose values an index holds whole.
SHORT_TYPES = (
    "smallint", "integer", "bigint", "real", "double precision", "numeric", "boolean", "date", "time without time zone",
    "timestamp without time zone", "timestamp with time zone", "uuid",
)  # fmt: skip
COMMENT = "An index of Penstock's checks: "


@dataclass(frozen=True, slots=True)
class PresentIndex:
    """A lookup index of a target: its name, and its terms as text."""

    schema: str
    name: str
    terms: str


def lookup_term(column: str, type_: str) -> str:
    """The term of a quoted column in a lookup index: the column itself, or the hash of a value that may be long."""
    base = type_.split("(", maxsplit=1)[0]
    if base in SHORT_TYPES:
        return column
    text = f"encode({column}, 'hex')" if base == "bytea" else f"({column})::text"
    return f"hashtextextended({text}, 0)"


def create_lookup_indexes(connection: Connection, pipeline: Pipeline, table: sql.Identifier) -> None:
    """Create the lookup indexes of an attempt's table, so that the table becomes a leaf without building any."""
    for lookup in find_lookups(pipeline.checks):
        connection.execute(sql.SQL("create index on {} {}").format(table, sql.SQL(_write_terms(pipeline, lookup))))


def ensure_lookup_indexes(
    connection: Connection, pipeline: Pipeline, request_all: Callable[[Mode], LockRequest]
) -> None:
    """Create the lookup indexes that the target does not have, and drop those that no check needs any more."""
    target = pipeline.target
    wanted = [_write_terms(pipeline, lookup) for lookup in find_lookups(pipeline.checks)]
    where = {"target": quote_target(target), "comment": COMMENT}
    present = _statements.fetch_all(connection, PresentIndex, "read_lookup_indexes", **where)
    for index in present:
        if index.terms not in wanted:
            end_merges(connection, target)
            lock_in_tries(connection, request_all("access exclusive"))
            connection.execute(sql.SQL("drop index {}").format(sql.Identifier(index.schema, index.name)))
    for terms in wanted:
        if terms in [index.terms for index in present]:
            continue
        end_merges(connection, target)
        lock_in_tries(connection, request_all("share"))
        name = find_free_name(connection, target.schema_name, f"{target.table_name}_lookup_idx")
        connection.execute(
            sql.SQL("create index {} on {} {}").format(sql.Identifier(name), target_identifier(target), sql.SQL(terms))
        )
        index_name = sql.Identifier(target.schema_name, name)
        comment = sql.SQL("comment on index {} is {}").format(index_name, sql.Literal(COMMENT + terms))
        connection.execute(comment)


def _write_terms(pipeline: Pipeline, lookup: Lookup) -> str:
    types = {name: type_ for name, (type_, _) in describe_columns(pipeline).items()}
    keys = [lookup_term(sql.Identifier(name).as_string(None), types[name]) for name in lookup.keys]
    terms = ", ".join([*keys, *(sql.Identifier(name).as_string(None) for name in lookup.rest)])
    # The window of a check is a condition on _load_id: with it the index answers alone, and no row of the target is
    # read. At 100M rows the order of 100,000 keys took 22 s without it.
    return f"({terms})" + (" include (_load_id)" if lookup.rest else "")
