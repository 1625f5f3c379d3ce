"""Holes in the ledger, in the caller's transaction: which are named, by kind, and which are unexplained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb
from psycopg.types.range import Int8Range

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    from psycopg import sql

    from penstock.ledger.connection import Connection

    T = TypeVar("T")

_statements = Statements("ledger/hole")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets that a load covers, and whose holes are to be named."""

    load_id: int
    partition: int
    from_offset: int
    until_offset: int
    coverage_id: int  # the row of the ledger that covers them


@dataclass(frozen=True, slots=True)
class UnexplainedHole:
    """A hole that nothing in the log explains, and why not."""

    from_offset: int
    until_offset: int
    why: str


def find_loads_to_name(
    connection: Connection, pipeline_id: int, generation_id: int, again: list[int] | None
) -> list[int]:
    """Find the published loads whose holes are not known to be all named, and those of `again`; None for all loads."""
    where = {"pipeline_id": pipeline_id, "generation_id": generation_id, "again": again}
    return _statements.fetch_values(connection, int, "find_loads_to_name", **where)


def remember_named(connection: Connection, load_ids: Sequence[int]) -> list[int]:
    """Remember the loads whose holes are all named, of some loads, without those that another transaction changes."""
    locked = _statements.fetch_values(connection, int, "lock_loads", loads=list(load_ids))
    forget_named(connection, locked)
    return _statements.fetch_values(connection, int, "remember_named", loads=locked)


def forget_named(connection: Connection, load_ids: Sequence[int]) -> None:
    """Forget that the holes of loads are all named; the transaction holds the locks of the loads."""
    _statements.execute(connection, "forget_named", loads=list(load_ids))


def find_unnamed(connection: Connection, load_ids: Sequence[int]) -> list[Stretch]:
    """Find offsets that loads cover with holes that are not named."""
    return _statements.fetch_all(connection, Stretch, "find_unnamed", loads=list(load_ids))


def find_unexplained(connection: Connection, pipeline_id: int, generation_id: int) -> list[Stretch]:
    """Find pieces with unexplained holes that are still covered."""
    where = {"pipeline_id": pipeline_id, "generation_id": generation_id}
    return _statements.fetch_all(connection, Stretch, "find_unexplained", **where)


def find_holes(connection: Connection, make: Callable[..., T], target: sql.Identifier, window: Stretch) -> list[T]:
    """Find the holes of a window; each is made by `make` from `from_offset` and `until_offset`."""
    return _statements.fetch_all(connection, make, "find_holes", {"target": target}, **asdict(window))


def record_naming(
    connection: Connection, stretch: Stretch, counts: Mapping[Any, int], unexplained: Sequence[UnexplainedHole]
) -> bool:
    """Record the holes of a stretch by kind, in place of what was recorded before.

    False if the load has not covered the stretch all the time since it was found: nothing is recorded then.
    """
    where = asdict(stretch)
    still = [Int8Range(hole.from_offset, hole.until_offset) for hole in unexplained]
    locked = _statements.fetch_values(connection, int, "lock_load", load_id=stretch.load_id)
    if not locked:
        return False
    forget_named(connection, locked)
    _statements.execute(connection, "forget_naming", **where)
    _statements.execute(connection, "forget_unexplained", **where, still=still)
    if _statements.execute(connection, "record_naming", **where, **counts) != 1:
        return False
    _statements.execute(
        connection,
        "record_unexplained",
        load_id=stretch.load_id,
        partition=stretch.partition,
        holes=Jsonb([asdict(hole) for hole in unexplained]),
    )
    return True


def read_unexplained(connection: Connection, make: Callable[..., T], pipeline: str, generation_id: int) -> list[T]:
    """Read all unexplained holes of a generation: `load_id`, `partition`, `from_offset`, `until_offset`, `why`."""
    where = {"pipeline": pipeline, "generation_id": generation_id}
    return _statements.fetch_all(connection, make, "read_unexplained", **where)


def sum_holes(connection: Connection, pipeline: str, generation_id: int) -> dict[str, int]:
    """Sum the holes of a generation by kind."""
    where = {"pipeline": pipeline, "generation_id": generation_id}
    rows: list[dict[str, Any]] = _statements.fetch_all(connection, dict, "sum_holes", **where)
    return {row["kind"]: row["holes"] for row in rows}


def count_holes(connection: Connection, pipeline: str, generation_id: int) -> list[dict[str, Any]]:
    """Count the holes of a generation by load, partition and kind; the keys are those of the JSON document."""
    where = {"pipeline": pipeline, "generation_id": generation_id}
    return _statements.fetch_all(connection, dict, "count_holes", **where)
