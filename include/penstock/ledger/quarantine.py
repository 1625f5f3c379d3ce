"""The quarantine in the ledger, in the caller's transaction: rows that leave an attempt's table, with their records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import sql

    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

_statements = Statements("ledger/quarantine")


@dataclass(frozen=True, slots=True)
class SetAside:
    """A record whose row leaves the attempt's table: its place, the reason, and the record itself."""

    partition: int
    offset: int
    reason: str
    detail: str
    rule: str | None
    first_partition: int | None
    first_offset: int | None
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, str]]


def open_set_aside(connection: Connection) -> None:
    """Create the temporary table of records that are set aside, or empty the one of this session."""
    _statements.execute(connection, "create_set_aside")
    _statements.execute(connection, "empty_set_aside")


def set_aside(connection: Connection, records: Iterable[SetAside]) -> None:
    """Write records into the temporary table of this session."""
    with connection.cursor() as cursor, cursor.copy(_statements.texts["fill_set_aside"].encode()) as copy:
        for record in records:
            copy.write_row(
                (
                    record.partition,
                    record.offset,
                    record.reason,
                    record.detail,
                    record.rule,
                    record.first_partition,
                    record.first_offset,
                    record.key,
                    record.value,
                    Jsonb(record.headers),
                )
            )


def move_to_quarantine(connection: Connection, load: Load, staged: sql.Identifier) -> int:
    """Move the rows of the records that were set aside to the quarantine, and return their number.

    The caller holds the lock of the load, and has found it staged at this attempt.
    """
    where = {"load_id": load.load_id, "attempt": load.attempt}
    return _statements.fetch_value(connection, int, "move_to_quarantine", {"staged": staged}, **where)


def count_moved(connection: Connection, load: Load) -> dict[str, int]:
    """Count the rows of the current attempt that each rule has moved to the quarantine."""
    where = {"load_id": load.load_id, "attempt": load.attempt}
    return dict(_statements.fetch_all(connection, _make_count, "count_moved", **where))


def _make_count(rule: str, records: int) -> tuple[str, int]:
    return rule, records
