"""The rows that a load has of a range: their hash, their count, and statements that delete or move them.

PostgreSQL computes the hashes itself, when rows are staged and whenever they are verified later. It uses the functions
that hash partitions, whose results stay the same from one version to the next. Each column is hashed with a seed of its
own, made from the row's offset, so that two exchanged values change the hash of the row.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.declaration.carried import ADDRESS_NAMES
from penstock.declaration.columns import parse_type
from penstock.ledger.statements import Statements
from penstock.target.base import RowSum
from penstock.target.postgres.table import describe_columns

if TYPE_CHECKING:
    from decimal import Decimal

    from penstock.declaration.columns import Family
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.ranges import Range

_statements = Statements("target/postgres/rows")

SEED_DISTANCE = 2**48

# Called by its name, a hash function costs half of hash_record_extended, which serves all other types.
# The casts to the declared type cost nothing, and let the rows of earlier loads be hashed after a column was widened.
HASH_FUNCTIONS: dict[Family, str] = {
    "smallint": "hashint2extended({column}::smallint, {seed})",
    "integer": "hashint4extended({column}::integer, {seed})",
    "bigint": "hashint8extended({column}, {seed})",
    "real": "hashfloat4extended({column}::real, {seed})",
    "double": "hashfloat8extended({column}, {seed})",
    "numeric": "hash_numeric_extended({column}, {seed})",
    "text": "hashtextextended({column}, {seed})",
    "varchar": "hashtextextended({column}::text, {seed})",
    "boolean": "hashint4extended({column}::int, {seed})",
    "timestamptz": "timestamptz_hash_extended({column}, {seed})",
    # The type json has no equality and no hash function, so its text is hashed.
    "json": "hashtextextended({column}::text, {seed})",
}
OTHER_TYPES = "hash_record_extended(row({column}), {seed})"


def hash_row(pipeline: Pipeline) -> sql.Composed:
    """Make the SQL expression that hashes a row of a pipeline's target, all columns but those in ADDRESS_NAMES."""
    columns = {name: type_ for name, (type_, _) in describe_columns(pipeline).items() if name not in ADDRESS_NAMES}
    hashes = [_hash_column(name, type_, place) for place, (name, type_) in enumerate(columns.items(), 1)]
    return sql.SQL(" # ").join([sql.SQL("hashint8extended(_offset, 0)"), *hashes])


def _hash_column(name: str, type_: str, place: int) -> sql.Composed:
    seed = sql.Literal(place * SEED_DISTANCE)
    template = HASH_FUNCTIONS.get(parse_type(type_).family, OTHER_TYPES)
    hashed = sql.SQL(template).format(column=sql.Identifier(name), seed=sql.SQL("_offset + {}").format(seed))
    return sql.SQL("coalesce({}, {})").format(hashed, seed)


def count_rows(
    connection: Connection, table: sql.Identifier, load_id: int, range_: Range, pipeline: Pipeline
) -> RowSum:
    """Count and hash the rows that a load has of a range in a table, by the columns of a pipeline."""
    pieces = {"table": table, "row_hash": hash_row(pipeline)}
    where = {"load_id": load_id, **asdict(range_)}
    return _statements.fetch_only(connection, _make_row_sum, "sum_rows", pieces, **where)


def _make_row_sum(rows: int, row_hash: Decimal) -> RowSum:
    return RowSum(rows, int(row_hash))


def delete_rows(connection: Connection, table: sql.Identifier, load_id: int, range_: Range) -> None:
    """Delete the rows that a load has of a range."""
    _statements.execute(connection, "delete_rows", {"table": table}, load_id=load_id, **asdict(range_))


def move_rows(connection: Connection, table: sql.Identifier, load_id: int, range_: Range, into: sql.Identifier) -> None:
    """Move the rows that a load has of a range into another table with the same columns in the same order."""
    pieces = {"table": table, "into": into}
    _statements.execute(connection, "move_rows", pieces, load_id=load_id, **asdict(range_))
