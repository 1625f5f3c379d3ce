"""The figures of the coverage map, for some partitions and cells. It reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from penstock.ledger.connection import Connection

    # The first offsets of the cells of each partition.
    Starts = Mapping[int, Sequence[int]]

_statements = Statements("ledger/coverage_map")


@dataclass(frozen=True, slots=True)
class CoveredCell:
    """The covered ranges of a partition that begin in one cell. Cells are counted from 1."""

    partition: int
    cell: int
    from_offset: int
    until_offset: int
    offsets: int
    rows: int
    quarantined: int
    holes: int
    first_load: int
    last_load: int
    ranges: int
    filtered: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets with a reason: not covered (lost, pending, rolled back), or an unexplained hole."""

    kind: Literal["lost", "pending", "rolled_back", "unexplained_hole"]
    partition: int
    from_offset: int
    until_offset: int
    load_id: int | None


@dataclass(frozen=True, slots=True)
class PlacedRecords:
    """Quarantined records of a range in a cell."""

    partition: int
    from_offset: int
    cell: int
    records: int


@dataclass(frozen=True, slots=True)
class TimeOfOffset:
    """The time of the first record from an offset on."""

    partition: int
    offset: int
    at: datetime


def count_unexplained(connection: Connection, generation_id: int) -> dict[int, int]:
    """Count the unexplained holes of a generation by partition."""
    return dict(_statements.fetch_all(connection, _make_count, "count_unexplained", generation_id=generation_id))


def find_times(
    connection: Connection, pipeline_id: int, generation_id: int, partitions: Sequence[int]
) -> list[TimeOfOffset]:
    """Find the times of about two hundred offsets of each partition, in the order of the offsets."""
    where = {"pipeline_id": pipeline_id, "generation_id": generation_id, "partitions": list(partitions)}
    return _statements.fetch_all(connection, TimeOfOffset, "find_times", **where)


def sum_cells(connection: Connection, generation_id: int, starts: Starts) -> list[CoveredCell]:
    """Sum the covered offsets of partitions by the cells in which their ranges begin."""
    where = {"generation_id": generation_id, "cells": _describe(starts)}
    return _statements.fetch_all(connection, CoveredCell, "sum_cells", **where)


def read_ranges_at(
    connection: Connection, generation_id: int, places: Sequence[tuple[int, int, int]]
) -> list[CoveredCell]:
    """Read the covered ranges that hold some offsets: partition, cell and offset of each."""
    if not places:
        return []
    names = ("partition", "cell", "offset")
    rows = Jsonb([dict(zip(names, place, strict=True)) for place in places])
    return _statements.fetch_all(connection, CoveredCell, "read_ranges_at", generation_id=generation_id, places=rows)


def place_quarantined(
    connection: Connection, starts: Starts, ranges: Sequence[tuple[int, int, int, int]]
) -> dict[tuple[int, int], dict[int, int]]:
    """Count quarantined records by cell; the ranges are load, partition, first offset, and the offset after the last.

    The result has, by partition and first offset of a range, the records by cell.
    """
    if not ranges:
        return {}
    names = ("load_id", "partition", "from_offset", "until_offset")
    described = [dict(zip(names, range_, strict=True)) for range_ in ranges]
    where = {"cells": _describe(starts), "ranges": Jsonb(described)}
    found: dict[tuple[int, int], dict[int, int]] = {}
    for each in _statements.fetch_all(connection, PlacedRecords, "place_quarantined", **where):
        found.setdefault((each.partition, each.from_offset), {})[each.cell] = each.records
    return found


def read_pieces(connection: Connection, pipeline_id: int, generation_id: int, partitions: Sequence[int]) -> list[Piece]:
    """Read the offsets of partitions that have a reason of their own, in their order."""
    where = {"pipeline_id": pipeline_id, "generation_id": generation_id, "partitions": list(partitions)}
    return _statements.fetch_all(connection, Piece, "read_pieces", **where)


def _describe(starts: Starts) -> Jsonb:
    return Jsonb([{"partition": partition, "starts": list(offsets)} for partition, offsets in starts.items()])


def _make_count(partition: int, offsets: int) -> tuple[int, int]:
    return partition, offsets
