"""The columns that Penstock adds to every row of a target, after the declared columns.

They name the load that brought the row, and the record that the row was made from.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.declaration.columns import ColumnType, parse_type
from penstock.declaration.formats import WHOLE_VALUE_TYPES


@dataclass(frozen=True, slots=True)
class CarriedColumn:
    """A column that Penstock fills itself."""

    name: str
    type: ColumnType
    required: bool


# `_load_id` is the partition key of the target, and (`_partition`, `_offset`) the primary key of its leaves: columns of
# a PostgreSQL partition key or primary key. A record of Kafka may have no timestamp.
ALWAYS_CARRIED = (
    CarriedColumn("_load_id", parse_type("bigint"), required=True),
    CarriedColumn("_partition", parse_type("integer"), required=True),
    CarriedColumn("_offset", parse_type("bigint"), required=True),
    CarriedColumn("_timestamp", parse_type("timestamptz"), required=False),
)
KEY_NAME = "_key"
TOMBSTONE_NAME = "_tombstone"
# No declared column may have one of these names.
CARRIED_NAMES = (*(column.name for column in ALWAYS_CARRIED), KEY_NAME, TOMBSTONE_NAME)
# Penstock knows these three of every row without reading it, from the load and from the record's place in the log.
ADDRESS_NAMES = ("_load_id", "_partition", "_offset")
# The columns of an upsert that name the record of each row; a generation, because offsets begin again in each.
UPSERT_CARRIED = {"_generation": "bigint", "_partition": "integer", "_offset": "bigint", "_timestamp": "timestamptz"}


def carried_columns(key: object, tombstones: object) -> tuple[CarriedColumn, ...]:
    """List the columns that a pipeline's rows carry, by its `key:` and `tombstones:`, which may be invalid."""
    carried: tuple[CarriedColumn, ...] = ALWAYS_CARRIED
    if isinstance(key, str) and key in WHOLE_VALUE_TYPES:
        carried += (CarriedColumn(KEY_NAME, WHOLE_VALUE_TYPES[key], required=False),)
    if tombstones == "keep":
        # Not required, because it can be added to a target that has rows.
        carried += (CarriedColumn(TOMBSTONE_NAME, parse_type("boolean"), required=False),)
    return carried
