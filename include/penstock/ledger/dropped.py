"""Rows that maintenance has dropped after `keep_rows_days`, in the caller's transaction. Their coverage stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import WrongUseError, name_few
from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

_statements = Statements("ledger/dropped")


@dataclass(frozen=True, slots=True)
class OldLeaf:
    """A leaf of which every load was published long ago."""

    name: str
    from_load: int
    until_load: int


def find_old_leaves(
    connection: Connection, pipeline_id: int, leaves: Sequence[tuple[str, int, int]], days: int
) -> list[OldLeaf]:
    """Find the leaves, each given as a name and its bounds, whose loads were published more than so many days ago."""
    names, from_loads, until_loads = map(list, zip(*leaves, strict=True)) if leaves else ([], [], [])
    bounds = {"names": names, "from_loads": from_loads, "until_loads": until_loads}
    return _statements.fetch_all(connection, OldLeaf, "find_old_leaves", pipeline_id=pipeline_id, days=days, **bounds)


def record_dropped(connection: Connection, pipeline_id: int, leaf: OldLeaf) -> int:
    """Record the loads whose rows were dropped with a leaf, and return their number."""
    where = {"leaf": leaf.name, "from_load": leaf.from_load, "until_load": leaf.until_load}
    return _statements.execute(connection, "record_dropped", pipeline_id=pipeline_id, **where)


def count_dropped(connection: Connection, pipeline_id: int) -> int:
    """Count the loads of a pipeline whose rows were dropped."""
    return _statements.fetch_value(connection, int, "count_dropped", pipeline_id=pipeline_id)


def find_dropped(connection: Connection, loads: Iterable[int]) -> frozenset[int]:
    """Find those of some loads whose rows were dropped."""
    return frozenset(_statements.fetch_values(connection, int, "find_dropped", loads=list(loads)))


def refuse_dropped(connection: Connection, load: Load, loads: Sequence[int]) -> None:
    """Refuse to take away or replace rows of loads whose rows were dropped."""
    found = sorted(find_dropped(connection, loads))
    if found:
        raise WrongUseError(
            f"the rows of load {', '.join(name_few(found))} were dropped (keep_rows_days); they cannot be taken out or "
            "replaced, and nothing is changed.",
            pipeline=load.pipeline,
            load=load.load_id,
            ranges=load.ranges,
            next_step=advice.ROWS_DROPPED,
        )
