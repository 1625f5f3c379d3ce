"""Later copies of a row in a staged load: they go to the quarantine with the place of the first copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.declaration.carried import TOMBSTONE_NAME
from penstock.declaration.durations import parse_duration
from penstock.ledger.connection import connect
from penstock.ledger.load import read_load
from penstock.ledger.quarantine import count_moved
from penstock.ledger.redrive import find_loads_beside
from penstock.ledger.statements import Statements
from penstock.model.load import CheckResult
from penstock.quality.moving import Cause, move_rows
from penstock.target.postgres.attempt import attempt_table
from penstock.target.postgres.table import join_names, target_identifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.declaration.rules import Dedupe
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load
    from penstock.quality.moving import Kafka

_statements = Statements("quality/dedupe")

MOST_SAMPLES = 10
# The name of the results, and of the moved rows among those of rules.
NAME = "dedupe"


# The conditions on a row `t` of the target that may be the first copy of a staged row `s`.
NEAR_IN_TIME = sql.SQL(
    "t._timestamp between s._timestamp - %(within)s::interval and s._timestamp + %(within)s::interval"
)
# A record of a redrive belongs to the load that quarantined it: its copies come from the offsets of that load, in
# whichever of the loads holds them now.
OF_SAME_LOAD = sql.SQL(
    """t._load_id = any(%(loads)s::bigint[])
      and exists (select from penstock.redriven v join penstock.load_range w on w.load_id = v.source_load
                  where v.load_id = %(load_id)s and v.partition = s._partition and v."offset" = s._offset
                    and w.partition = t._partition and t._offset >= w.from_offset and t._offset < w.until_offset)"""
)
SOURCE_LOAD = sql.SQL(
    """(select v.source_load from penstock.redriven v
        where v.load_id = %(load_id)s and v.partition = s._partition and v."offset" = s._offset)"""
)
NOT_IN_TARGET, ONE_LOAD = sql.SQL("false"), sql.SQL("0")


@dataclass(frozen=True, slots=True)
class Copy:
    """A later copy, the place of the first one, and the number of all later copies in the load."""

    partition: int
    offset: int
    first_partition: int
    first_offset: int
    copies: int


def apply_dedupe(db: str, kafka: Kafka | None, load: Load) -> list[CheckResult]:
    """Move later copies to the quarantine; a result without success holds the load, and no copy is moved."""
    dedupe = load.declaration.dedupe
    if dedupe is None:
        return []
    with connect(db) as connection:
        moved = count_moved(connection, load)
        rows = (read_load(connection, load.load_id).rows or 0) + sum(moved.values())
        copies = _find_copies(connection, load, dedupe)
    result = _decide(load, dedupe, copies, moved.get(NAME, 0), rows)
    if result.success and copies:
        move_rows(db, kafka, load, {(copy.partition, copy.offset): _make_cause(copy) for copy in copies})
    return [result]


def _find_copies(connection: Connection, load: Load, dedupe: Dedupe) -> list[Copy]:
    """Find later copies, and at most one more than may be moved. The ids are columns, so no SQL of a person runs."""
    limit = sql.Literal(f"{load.declaration.timeout_minutes}min")
    connection.execute(sql.SQL("set local statement_timeout = {}").format(limit))
    pieces: dict[str, sql.Composable] = {
        "source": ONE_LOAD,
        "staged": _without_tombstones(load, attempt_table(load.load_id, load.attempt)),
        "target": _without_tombstones(load, target_identifier(load.declaration.target)),
        "ids": join_names(dedupe.by),
        "known": sql.SQL(" and ").join(sql.SQL("{} is not null").format(sql.Identifier(name)) for name in dedupe.by),
    }
    values: dict[str, object] = {"load_id": load.load_id}
    if dedupe.within is not None:
        pieces["near"] = NEAR_IN_TIME
        values["within"] = parse_duration(dedupe.within)
    elif load.kind == "redrive":
        pieces |= {"near": OF_SAME_LOAD, "source": SOURCE_LOAD}
        values["loads"] = find_loads_beside(connection, load.load_id)
    else:
        pieces["near"] = NOT_IN_TARGET
    # All records of a redrive may be copies.
    most = sum(map(len, load.ranges)) if load.kind == "redrive" else dedupe.hold_above.records + 1
    return _statements.fetch_all(connection, Copy, "find_copies", pieces, **values, most=most)


def _without_tombstones(load: Load, table: sql.Identifier) -> sql.Composable:
    """Leave out tombstones: a deletion has the ids of the row that it deletes, and must not count as its copy."""
    if load.declaration.tombstones != "keep":
        return table
    return sql.SQL("(select * from {} where {} is not true)").format(table, sql.Identifier(TOMBSTONE_NAME))


def _decide(load: Load, dedupe: Dedupe, copies: Sequence[Copy], moved: int, rows: int) -> CheckResult:
    limit = dedupe.hold_above
    found = moved + (copies[0].copies if copies else 0)
    within_share = limit.share is None or found <= limit.share * rows
    passes = load.kind == "redrive" or (found <= limit.records and within_share)
    observed: dict[str, object] = {"rows": rows, "copies": found, "hold_above": limit.records}
    if limit.share is not None:
        observed["hold_above_share"] = limit.share
    if not passes:
        observed["offsets"] = [[copy.partition, copy.offset] for copy in copies[:MOST_SAMPLES]]
    return CheckResult("rule", NAME, None, None, "error", passes, observed)


def _make_cause(copy: Copy) -> Cause:
    first = copy.first_partition, copy.first_offset
    return Cause("duplicate", f"a copy of the record at partition {first[0]} offset {first[1]}", None, first)
