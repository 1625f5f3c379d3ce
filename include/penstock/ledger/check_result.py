"""Counts of an attempt and results of its checks in the ledger, in the caller's transaction."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements
from penstock.model.checks import condense, find_figure
from penstock.model.load import CheckResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from decimal import Decimal

    from psycopg import sql

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/check_result")


@dataclass(frozen=True, slots=True)
class RowSums:
    """The fingerprint of a partition's staged rows, and the times (ms) of its first and last record.

    The times are of rows and of quarantined records; None if no record has one.
    """

    row_hash: Decimal
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """The result of one check on one load. `figure` is the main figure that the check observed."""

    load_id: int
    load_kind: str
    state: str
    checked_at: datetime
    kind: str
    expectation: str
    column: str | None
    suite: str | None
    check_id: str | None
    severity: str
    success: bool
    partitions_failed: int
    figure: float | None


@dataclass(frozen=True, slots=True)
class Failure:
    """The figures of a failed check, in one partition or in the whole load."""

    load_id: int
    expectation: str
    column: str | None
    check_id: str | None
    partition: int | None
    observed: dict[str, Any]


def record_checks(connection: Connection, load_id: int, attempt: int, results: Sequence[CheckResult]) -> None:
    """Record the results of the checks on an attempt, in place of those of an earlier run.

    Of a check of many partitions, the result of the whole load and those of failed partitions are recorded.
    """
    rows = [
        {**asdict(result), "figure": find_figure(result), "ordinal": ordinal}
        for ordinal, result in enumerate(condense(results))
    ]
    _statements.execute(connection, "forget_checks", load_id=load_id, attempt=attempt)
    _statements.execute(connection, "record_checks", load_id=load_id, attempt=attempt, results=Jsonb(rows))


def lock_load(connection: Connection, load_id: int) -> None:
    """Let two validations of one attempt wait for each other."""
    _statements.execute(connection, "lock_load", load_id=load_id)


def keep_sums(
    connection: Connection,
    load_id: int,
    by_partition: Mapping[int, RowSums],
    staged: sql.Identifier,
    row_hash: sql.Composable,
) -> None:
    """Store the sums of the staged rows; ranges that share a partition are read again through the key."""
    _statements.execute(
        connection,
        "keep_sums",
        load_id=load_id,
        partitions=list(by_partition),
        row_hashes=[sums.row_hash for sums in by_partition.values()],
        firsts_ms=[sums.first_ms for sums in by_partition.values()],
        lasts_ms=[sums.last_ms for sums in by_partition.values()],
    )
    pieces = {"row_hash": row_hash, "staged": staged}
    _statements.execute(connection, "keep_sums_by_key", pieces, load_id=load_id)


def count_warnings(connection: Connection, load_id: int) -> int:
    """Count the checks with severity warning that failed for the current attempt."""
    return _statements.fetch_value(connection, int, "count_warnings", load_id=load_id)


def read_failed_checks(connection: Connection, load_id: int, most: int) -> list[CheckResult]:
    """Read the first failed checks of the current attempt, those that hold the load first."""
    return _statements.fetch_all(connection, CheckResult, "read_failed_checks", load_id=load_id, most=most)


def count_failed_checks(connection: Connection, load_id: int) -> int:
    """Count the failed checks of the current attempt, whatever their severity."""
    return _statements.fetch_value(connection, int, "count_failed_checks", load_id=load_id)


def read_history(connection: Connection, pipeline_id: int, pipeline: str, last: int) -> list[HistoryRow]:
    """Read the results of the last loads of a pipeline that were checked, in the order of loads and checks."""
    load_ids = _find_checked(connection, pipeline_id, last)
    return _statements.fetch_all(connection, HistoryRow, "read_history", pipeline=pipeline, load_ids=load_ids)


def read_failures(connection: Connection, pipeline_id: int, expectation: str, last: int) -> list[Failure]:
    """Read the figures of an expectation where it failed, in the last loads that were checked."""
    load_ids = _find_checked(connection, pipeline_id, last)
    return _statements.fetch_all(connection, Failure, "read_failures", load_ids=load_ids, expectation=expectation)


def _find_checked(connection: Connection, pipeline_id: int, last: int) -> list[int]:
    return _statements.fetch_values(connection, int, "find_checked", pipeline_id=pipeline_id, last=last)


# Great Expectations may own the connection that counts an attempt, so the caller runs these texts.


def compose_declaration() -> str:
    """The text that reads the declaration that a load was planned by."""
    return _statements.compose_text("read_declaration")


def compose_count(staged: sql.Identifier, row_hash: sql.Composable) -> str:
    """The text that counts an attempt by partition."""
    return _statements.compose_text("count_attempt", {"staged": staged, "row_hash": row_hash})


def compose_sample(name: str, staged: sql.Identifier) -> str:
    """The text of a statement that reads some wrong offsets of a partition."""
    return _statements.compose_text(name, {"staged": staged})


def try_regex(connection: Connection, regex: str) -> None:
    """Raise a DataError of psycopg if PostgreSQL cannot read a regular expression."""
    _statements.execute(connection, "try_regex", regex=regex)
