"""The fingerprint of rows: a sum of hashes that PostgreSQL takes itself, when the rows are staged and ever after.

The hashes are those by which PostgreSQL hashes partitions: they stay the same from one version to the next. Each column
is hashed with a seed of its own, made from the row's offset, so that no two values can change places unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from penstock.declaration.carried import ADDRESS_NAMES
from penstock.declaration.columns import parse_type
from penstock.target.postgres.table import describe_columns, target_identifier

if TYPE_CHECKING:
    from penstock.declaration.columns import Family
    from penstock.declaration.pipeline import Pipeline
    from penstock.model.load import Load

SEEDS_APART = 2**48

# Called by name, a hash costs half of what hash_record takes, which is there for every other type.
BY_NAME: dict[Family, str] = {
    "smallint": "hashint2extended({column}, {seed})",
    "integer": "hashint4extended({column}, {seed})",
    "bigint": "hashint8extended({column}, {seed})",
    "real": "hashfloat4extended({column}, {seed})",
    "double": "hashfloat8extended({column}, {seed})",
    "numeric": "hash_numeric_extended({column}, {seed})",
    "text": "hashtextextended({column}, {seed})",
    "varchar": "hashtextextended({column}::text, {seed})",
    "boolean": "hashint4extended({column}::int, {seed})",
    "timestamptz": "timestamptz_hash_extended({column}, {seed})",
    # The type json has no equality, and no hash.
    "json": "hashtextextended({column}::text, {seed})",
}
ANY_OTHER = "hash_record_extended(row({column}), {seed})"


def hash_row(pipeline: Pipeline) -> sql.Composed:
    """The SQL expression that hashes a row of a pipeline's target, without the columns in ADDRESS_NAMES."""
    columns = {name: type_ for name, (type_, _) in describe_columns(pipeline).items() if name not in ADDRESS_NAMES}
    hashes = [_hash_column(name, type_, place) for place, (name, type_) in enumerate(columns.items(), 1)]
    return sql.SQL(" # ").join([sql.SQL("hashint8extended(_offset, 0)"), *hashes])


def describe_rows(load: Load, declared: Pipeline | None = None) -> dict[str, sql.Composable]:
    """The target of a load and the hash of its rows, by its own declaration or by another, as pieces of a statement."""
    row_hash = hash_row(declared or load.declaration)
    return {"target": target_identifier(load.declaration.target), "row_hash": row_hash}


def _hash_column(name: str, type_: str, place: int) -> sql.Composed:
    apart = sql.Literal(place * SEEDS_APART)
    template = BY_NAME.get(parse_type(type_).family, ANY_OTHER)
    hashed = sql.SQL(template).format(column=sql.Identifier(name), seed=sql.SQL("_offset + {}").format(apart))
    return sql.SQL("coalesce({}, {})").format(hashed, apart)
