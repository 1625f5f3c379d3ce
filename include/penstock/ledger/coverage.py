"""Coverage: which published load holds which offsets, and how ranges change owner, in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg.types.json import Jsonb

from penstock import advice
from penstock.errors import FencedError, name_ranges
from penstock.ledger.statements import Statements
from penstock.model.ranges import LoadRange, Range

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

_statements = Statements("ledger/coverage")


@dataclass(frozen=True, slots=True)
class Overlap:
    """A range that lost its coverage, with its load and the counts of its rows."""

    load_id: int
    partition: int
    from_offset: int
    until_offset: int
    rows: int
    row_hash: Decimal | None

    @property
    def range(self) -> Range:
        """The offsets."""
        return Range(self.partition, self.from_offset, self.until_offset)


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """Whether a load covers other ranges of a partition, and the recorded difference of its rows there."""

    covers_more: bool
    row_hash: Decimal | None
    rows: int | None


@dataclass(frozen=True, slots=True)
class PublishedLoads:
    """The loads that are published in a target, and tables that hold them under a name that no pipeline declares."""

    loads: int
    renamed_tables: list[str] | None
    rename_statements: list[str] | None


def cover_ranges(connection: Connection, load: Load) -> None:
    """Cover the ranges of a load; FencedError if any load covers some of the offsets already."""
    try:
        _statements.execute(connection, "cover_ranges", load_id=load.load_id)
    except psycopg.errors.ExclusionViolation as error:  # its detail names offsets, and no value of a row
        raise FencedError(
            f"offsets of this load are published already ({error.diag.message_detail}); nothing of it is published.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.SEE_COVERED,
        ) from error


def uncover_overlaps(connection: Connection, load: Load) -> list[Overlap]:
    """Uncover the ranges of other loads that overlap those of a load."""
    return _statements.fetch_all(connection, Overlap, "uncover_overlaps", load_id=load.load_id)


def read_difference(connection: Connection, load_id: int, partition: int) -> KnownDifference:
    """Read the recorded difference of a load in a partition, and whether it covers other ranges there."""
    where = {"load_id": load_id, "partition": partition}
    return _statements.fetch_only(connection, KnownDifference, "read_difference", **where)


def forget_difference(connection: Connection, load_id: int, partition: int) -> None:
    """Delete the recorded difference of a load in a partition."""
    _statements.execute(connection, "forget_difference", load_id=load_id, partition=partition)


def record_difference(connection: Connection, load_id: int, partition: int, rows: int, row_hash: int) -> None:
    """Record by how much the remaining rows of a load in a partition differ from what was published."""
    where = {"load_id": load_id, "partition": partition}
    _statements.execute(connection, "record_difference", **where, rows=rows, row_hash=row_hash)


def set_aside(connection: Connection, load: Load) -> list[Range]:
    """Uncover all ranges of a load, and keep them for an undo."""
    return sorted(_statements.fetch_all(connection, Range, "set_aside", load_id=load.load_id))


def bring_back(connection: Connection, load: Load) -> list[Range]:
    """Cover again the ranges that were set aside; FencedError if another load now covers some of the offsets."""
    others = _statements.fetch_all(connection, _make_load_range, "find_covered_again", load_id=load.load_id)
    if others:
        named = name_ranges([f"{other.range} by load {other.load}" for other in others], between=", ")
        raise FencedError(
            f"other loads have loaded some of its offsets again: {named}. None of its rows is put back.",
            pipeline=load.pipeline,
            load=load.load_id,
            next_step=advice.fill_rest_or_roll_back(load.pipeline),
        )
    return sorted(_statements.fetch_all(connection, Range, "bring_back", load_id=load.load_id))


def cover_rest(connection: Connection, load_id: int, range_: Range, rows: int, row_hash: int) -> None:
    """Cover a piece that a load keeps of a range, with the number and the hash of the piece's rows."""
    _statements.execute(connection, "cover_rest", load_id=load_id, **asdict(range_), rows=rows, row_hash=row_hash)


def forget_aside(connection: Connection, load_id: int) -> None:
    """Delete the coverage that an undo of a rollback would restore."""
    _statements.execute(connection, "forget_aside", load_id=load_id)


def read_gaps(connection: Connection, pipeline: str, generation_id: int) -> list[Range]:
    """Read the offsets below the positions of a generation that are neither covered nor lost."""
    where = {"pipeline": pipeline, "generation_id": generation_id}
    return _statements.fetch_all(connection, Range, "read_gaps", **where)


def read_counted_gaps(connection: Connection, pipeline: str) -> list[Range]:
    """Read the gaps of a pipeline as the sampler has counted them."""
    return _statements.fetch_all(connection, Range, "read_counted_gaps", pipeline=pipeline)


def read_covered_within(
    connection: Connection, generation_id: int, spans: Sequence[tuple[int, int, int]]
) -> list[LoadRange]:
    """Read the published ranges that overlap spans: partition, first offset, and the offset after the last."""
    names = ("partition", "from_offset", "until_offset")
    rows = Jsonb([dict(zip(names, span, strict=True)) for span in spans])
    where = {"generation_id": generation_id, "spans": rows}
    return _statements.fetch_all(connection, _make_load_range, "read_covered_within", **where)


def read_covered(connection: Connection, pipeline_id: int, generation_id: int) -> list[LoadRange]:
    """Read the published ranges of a generation, each with its load."""
    where = {"pipeline_id": pipeline_id, "generation_id": generation_id}
    return _statements.fetch_all(connection, _make_load_range, "read_covered", **where)


def read_dropped(connection: Connection, pipeline_id: int, generation_id: int) -> list[LoadRange]:
    """Read the published ranges of a generation whose rows were dropped, each with its load."""
    where = {"pipeline_id": pipeline_id, "generation_id": generation_id}
    return _statements.fetch_all(connection, _make_load_range, "read_dropped", **where)


def read_covered_by_load(connection: Connection, load_id: int, partition: int) -> list[Range]:
    """Read the ranges of a partition that a load covers; none if its rows were dropped after their keeping time."""
    where = {"load_id": load_id, "partition": partition}
    return _statements.fetch_all(connection, Range, "read_covered_by_load", **where)


def _make_load_range(partition: int, from_offset: int, until_offset: int, load_id: int) -> LoadRange:
    return LoadRange(Range(partition, from_offset, until_offset), load_id)


def find_published(connection: Connection, pipeline: str, schema: str, table: str) -> PublishedLoads:
    """Count the loads that are published in a target, and find the target under another name."""
    where = {"pipeline": pipeline, "schema": schema, "table": table}
    return _statements.fetch_only(connection, PublishedLoads, "find_published", **where)
