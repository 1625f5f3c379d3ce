"""Statements for the search for the offset at which a log was truncated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ledger.statements import Statements
from penstock.model.ranges import LoadRange, Range

if TYPE_CHECKING:
    from psycopg import sql

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/adoption")


@dataclass(frozen=True, slots=True)
class RowTime:
    """A row of the target: its offset, and its time in milliseconds."""

    offset: int
    timestamp: int | None


def read_covered_below(connection: Connection, generation_id: int, partition: int, below: int) -> list[LoadRange]:
    """Read which load covers which offsets of a partition below an offset, in all generations of the topic id."""

    def make(from_offset: int, until_offset: int, load_id: int) -> LoadRange:
        return LoadRange(Range(partition, from_offset, until_offset), load_id)

    where = {"generation_id": generation_id, "partition": partition, "below": below}
    return _statements.fetch_all(connection, make, "read_covered_below", **where)


def find_row_down(
    connection: Connection, target: sql.Identifier, load_id: int, range_: Range, at: int
) -> RowTime | None:
    """Find the last row of a load within a range, at or below an offset."""
    return _find(connection, "find_row_down", target, load_id, range_, at)


def find_row_up(connection: Connection, target: sql.Identifier, load_id: int, range_: Range) -> RowTime | None:
    """Find the first row of a load within a range."""
    return _find(connection, "find_row_up", target, load_id, range_, range_.from_offset)


def _find(
    connection: Connection, statement: str, target: sql.Identifier, load_id: int, range_: Range, at: int
) -> RowTime | None:
    return _statements.fetch_one(
        connection,
        RowTime,
        statement,
        {"target": target},
        load_id=load_id,
        partition=range_.partition,
        from_offset=range_.from_offset,
        until_offset=range_.until_offset,
        at=at,
    )
