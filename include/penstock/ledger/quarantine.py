"""The quarantine in the ledger, in the caller's transaction: rows that leave an attempt's table, and chosen records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql
from psycopg.types.json import Jsonb

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

_statements = Statements("ledger/quarantine")

# The condition of a selection, on the view penstock.quarantined (q) and the table penstock.load (l).
CHOSEN = sql.SQL(
    """q.pipeline = %(pipeline)s
      and (%(reason)s::text is null or q.reason = %(reason)s) and (%(rule)s::text is null or q.rule = %(rule)s)
      and (%(load)s::bigint is null or q.load_id = %(load)s)
      and (%(partition)s::int is null or q.partition = %(partition)s and q."offset" = %(offset)s)
      and (%(since)s::timestamptz is null or l.published_at >= %(since)s)
      and (%(until)s::timestamptz is null or l.published_at < %(until)s)"""
)
RECORDS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Selection:
    """Quarantined records of published loads; an absent value selects all."""

    pipeline: str
    reason: str | None = None
    rule: str | None = None
    load: int | None = None
    partition: int | None = None
    offset: int | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_everything(self) -> bool:
        """Whether it selects all records of the pipeline."""
        return self == Selection(self.pipeline)

    def __str__(self) -> str:
        given = {name: value for name, value in asdict(self).items() if value is not None and name != "pipeline"}
        return ", ".join(f"{name} {value}" for name, value in given.items()) or "all records"

    def describe_none(self) -> str:
        """The sentence that the selection has found no record, without its full stop."""
        if self.is_everything:
            return "there is no quarantined record with contents"
        return f"no quarantined record with contents is selected by {self}"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A quarantined record of a published load. Its contents are None after they were dropped."""

    load: int
    partition: int
    offset: int
    reason: str
    rule: str | None
    detail: str
    timestamp: datetime | None
    first_partition: int | None
    first_offset: int | None
    dropped_at: datetime | None
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, str]]


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


def list_quarantined(connection: Connection, selection: Selection) -> list[dict[str, Any]]:
    """Count the selected records by load, reason and rule, by the keys of the JSON document."""
    return _statements.fetch_all(connection, dict, "list_quarantined", {"chosen": CHOSEN}, **asdict(selection))


def read_quarantined(
    connection: Connection, selection: Selection, most: int = RECORDS_AT_ONCE, after: Quarantined | None = None
) -> list[Quarantined]:
    """Read some of the selected records, after a record in the order of loads, partitions and offsets."""
    place = (after.load, after.partition, after.offset) if after else (-1, -1, -1)
    where = dict(zip(("after_load", "after_partition", "after_offset"), place, strict=True))
    values = {**asdict(selection), **where, "most": most}
    return _statements.fetch_all(connection, Quarantined, "read_quarantined", {"chosen": CHOSEN}, **values)


def read_each_quarantined(connection: Connection, selection: Selection) -> Iterator[Quarantined]:
    """Read all selected records, in transactions of their own: the reader of the records may be slow."""
    last = None
    while records := read_quarantined(connection, selection, after=last):
        connection.commit()
        yield from records
        last = records[-1]


def drop_quarantined(connection: Connection, selection: Selection) -> dict[int, int]:
    """Drop the contents of the selected records; the number of records of each load."""
    where = asdict(selection)
    return dict(_statements.fetch_all(connection, _make_dropped, "drop_quarantined", {"chosen": CHOSEN}, **where))


def _make_dropped(load_id: int, records: int) -> tuple[int, int]:
    return load_id, records
