"""Find where a log was truncated, by comparing its records with the loaded rows.

The end of the log is not the answer: since the truncation the log has grown again, by records that are not loaded yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import KafkaError
from penstock.kafka.admin import ANSWER_SECONDS
from penstock.kafka.first_records import First, read_first_records
from penstock.ledger.adoption import find_row_down, find_row_up, read_covered_below
from penstock.model.ranges import Range
from penstock.target.postgres.table import read_columns, target_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.log import PartitionLog
    from penstock.model.ranges import LoadRange


@dataclass(frozen=True, slots=True)
class Search:
    """A partition whose log ends below the position, the generation of its rows, and the bounds of its log now."""

    pipeline: Pipeline
    generation_id: int
    partition: int
    log: PartitionLog


def bisect_truncation(
    find_row: Callable[[int, int, int], First | None], agrees: Callable[[First], bool], within: Range
) -> int:
    """Find the first offset at which the log holds another record than the table.

    `find_row(low, at, high)` returns a row of [low, high) near `at`, or None if [low, high) has no row. Every row below
    the result agrees with the log, and no row from the result on does: a load that continues there reads no record
    twice and misses none.
    """
    low, high, at = within.from_offset, within.until_offset, within.until_offset - 1  # most logs have not grown since
    while low < high and (row := find_row(low, at, high)):
        if agrees(row):
            low = row.offset + 1
        else:
            high = row.offset
        at = (low + high) // 2
    return low


def find_truncation(connection: Connection, kafka: Mapping[str, str], search: Search) -> int:
    """Find where a partition was truncated; the end of its log, if none of its rows were loaded.

    The search does not go below the first loaded offset: earlier offsets were left out on purpose.
    """
    covered = read_covered_below(connection, search.generation_id, search.partition, search.log.end)
    if not covered or not read_columns(connection, search.pipeline.target):
        return search.log.end
    low = max(search.log.start, covered[0].range.from_offset)

    def find_row(low: int, at: int, high: int) -> First | None:
        return _find_row(connection, search, covered, Range(search.partition, low, high), at)

    def agrees(row: First) -> bool:
        return _read_record(kafka, search, row.offset) == row

    return bisect_truncation(find_row, agrees, Range(search.partition, min(low, search.log.end), search.log.end))


def _find_row(connection: Connection, search: Search, covered: list[LoadRange], within: Range, at: int) -> First | None:
    """Find the last row at or below an offset, or the first one above: load by load, through the primary key."""
    target = target_identifier(search.pipeline.target)
    for part in reversed(covered):
        start, until = max(part.range.from_offset, within.from_offset), min(part.range.until_offset, at + 1)
        if start < until:
            range_ = Range(search.partition, start, until)
            if row := find_row_down(connection, target, part.load, range_, at):
                return First(row.offset, row.timestamp)
    for part in covered:
        start, until = max(part.range.from_offset, at + 1), min(part.range.until_offset, within.until_offset)
        if start < until:
            range_ = Range(search.partition, start, until)
            if row := find_row_up(connection, target, part.load, range_):
                return First(row.offset, row.timestamp)
    return None


def _read_record(kafka: Mapping[str, str], search: Search, offset: int) -> First | None:
    """Read the first record from an offset on. Uncommitted records count, because a truncation removes them too."""
    found = read_first_records(
        kafka, search.pipeline.topic, {search.partition: offset}, "read_uncommitted", ANSWER_SECONDS
    )
    if search.partition not in found:
        raise KafkaError(
            f"topic {search.pipeline.topic}: the record at offset {offset} of partition {search.partition} was not "
            "read in time; the offset of the truncation is unknown.",
            pipeline=search.pipeline.name,
            next_step=advice.CHECK_BROKERS_THEN_ADOPT,
        )
    return found[search.partition]
