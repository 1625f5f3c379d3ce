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


@dataclass(frozen=True, slots=True)
class UnexplainedHole:
    """A hole that nothing in the log explains, and why not."""

    from_offset: int
    until_offset: int
    why: str


def find_unnamed(
    connection: Connection, pipeline_id: int, generation_id: int, again: Sequence[int] | None
) -> list[Stretch]:
    """Find covered offsets with holes that are not named, and remember the loads that have none.

    Loads that an earlier run remembered are passed over, unless they are looked at `again`: None for all of them.
    """
    where = {"pipeline_id": pipeline_id, "generation_id": generation_id}
    looked_at = None if again is None else list(again)
    _statements.execute(connection, "forget_named_again", **where, loads=looked_at)
    loads = _statements.fetch_values(connection, int, "lock_loads_to_name", **where)
    _statements.execute(connection, "mark_named", loads=loads)
    return _statements.fetch_all(connection, Stretch, "find_unnamed", loads=loads)


def forget_named(connection: Connection, load_ids: Sequence[int]) -> None:
    """Let the next run look at the holes of loads whose coverage changes; the caller has locked them."""
    _statements.execute(connection, "forget_named", loads=list(load_ids))


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

    False if the load does not cover the stretch any more: nothing is recorded then.
    """
    where = asdict(stretch)
    still = [Int8Range(hole.from_offset, hole.until_offset) for hole in unexplained]
    _statements.execute(connection, "lock_load", load_id=stretch.load_id)
    forget_named(connection, [stretch.load_id])
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
