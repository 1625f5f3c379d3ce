"""Redrives in the ledger, in the caller's transaction: records that come back from the quarantine, as a load."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.ledger.quarantine import CHOSEN
from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import sql

    from penstock.ledger.connection import Connection
    from penstock.ledger.quarantine import Selection
    from penstock.model.load import Load

_statements = Statements("ledger/redrive")

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ChosenRecord:
    """A record of the quarantine, and the load that quarantined it."""

    source_load: int
    partition: int
    offset: int

    @property
    def place(self) -> Place:
        """Its partition and offset."""
        return self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Returned:
    """Records that a rolled back redrive returned; `is_covered` is false if their load is rolled back itself."""

    source_load: int
    is_covered: bool
    records: int


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record with its contents, as the quarantine stores it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, str]]
    millis: int


def choose_records(
    connection: Connection, selection: Selection, most: int, after: ChosenRecord | None
) -> list[ChosenRecord]:
    """Choose some of the selected records, after a record in the order of loads, partitions and offsets."""
    place = asdict(after).values() if after else (-1, -1, -1)
    where = dict(zip(("after_load", "after_partition", "after_offset"), place, strict=True))
    values = {**asdict(selection), **where, "most": most}
    return _statements.fetch_all(connection, ChosenRecord, "choose_records", {"chosen": CHOSEN}, **values)


def plan_records(connection: Connection, load_id: int, records: Sequence[ChosenRecord]) -> None:
    """Record which load quarantined each record of a redrive."""
    _statements.execute(
        connection,
        "plan_records",
        load_id=load_id,
        partitions=[record.partition for record in records],
        offsets=[record.offset for record in records],
        sources=[record.source_load for record in records],
    )


def read_records(connection: Connection, load_id: int, after: Place, most: int) -> list[StoredRecord]:
    """Read some records of a redrive from the quarantine, after a place."""
    where = {"load_id": load_id, "partition": after[0], "after": after[1], "most": most}
    return _statements.fetch_all(connection, StoredRecord, "read_records", **where)


def list_passing(connection: Connection, staged: sql.Identifier) -> set[Place]:
    """List the places of the rows of an attempt's table."""
    return set(_statements.fetch_all(connection, _make_place, "list_passing", {"staged": staged}))


def count_rejected(connection: Connection, load: Load) -> list[dict[str, Any]]:
    """Count the records that a redrive quarantined again, by the keys of the JSON document."""
    where = {"load_id": load.load_id, "attempt": load.attempt}
    return _statements.fetch_all(connection, dict, "count_rejected", **where)


def take_records(connection: Connection, load: Load) -> int:
    """Take the records of a redrive out of the quarantine, and return their number."""
    return _statements.execute(connection, "take_records", load_id=load.load_id)


def give_back(connection: Connection, load: Load) -> list[Returned]:
    """Return the records of a redrive to the quarantine of the loads that had quarantined them."""
    return _statements.fetch_all(connection, Returned, "give_back", load_id=load.load_id)


def forget_copies(connection: Connection, load_id: int) -> None:
    """Delete the records that a redrive quarantined again; the records themselves stay in the quarantine."""
    _statements.execute(connection, "forget_copies", load_id=load_id)


def find_open_redrives(connection: Connection, pipeline_id: int) -> list[int]:
    """Find the open redrives of a pipeline that no process works on."""
    return _statements.fetch_values(connection, int, "find_open_redrives", pipeline_id=pipeline_id)


def find_loads_beside(connection: Connection, load_id: int) -> list[int]:
    """Find the loads that now cover offsets of the loads that quarantined the records of a redrive."""
    return _statements.fetch_values(connection, int, "find_loads_beside", load_id=load_id)


def find_failed_redrives(connection: Connection, pipeline: str) -> list[int]:
    """Find the failed redrives of a pipeline that have an open incident."""
    return _statements.fetch_values(connection, int, "find_failed_redrives", pipeline=pipeline)


def _make_place(partition: int, offset: int) -> Place:
    return partition, offset
