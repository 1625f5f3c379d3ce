"""Whether the ledger adds up by itself: positions, coverage, losses, gaps and loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ledger.verification import find_odd_loads, read_partitions
from penstock.model.ranges import Range
from penstock.verify.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ledger.connection import Connection


@dataclass(frozen=True, slots=True)
class Standing:
    """A partition as the ledger has it: from where on, up to where, and what became of the offsets between."""

    generation: int
    partition: int
    origin: int
    position: int
    covered: tuple[Range, ...]
    lost: tuple[Range, ...]
    gaps: tuple[Range, ...]


def find_ledger_faults(connection: Connection, pipeline: str) -> list[Fault]:
    """Add up what the ledger says of a pipeline, generation by generation."""
    faults = [fault for standing in _read_standings(connection, pipeline) for fault in judge_standing(standing)]
    odd = find_odd_loads(connection, pipeline)
    return faults + [Fault("ledger", load.told, None, load.load_id, load.generation_id) for load in odd]


def judge_standing(standing: Standing) -> list[Fault]:
    """Every offset from the origin to the position is covered once, lost, or a gap; and there are none beside."""
    faults = []
    at = standing.origin
    told = [(range_, "covered") for range_ in standing.covered] + [(range_, "lost") for range_ in standing.lost]
    told += [(range_, "a gap") for range_ in standing.gaps]
    for range_, what in sorted(told):
        if range_.from_offset < at:
            faults.append(_fault(standing, range_.from_offset, at, f"{what}, and something else before or too"))
        elif range_.from_offset > at:
            faults.append(_fault(standing, at, range_.from_offset, "neither covered, nor lost, nor a gap"))
        at = max(at, range_.until_offset)
    if at > standing.position:
        faults.append(_fault(standing, standing.position, at, f"beyond the position {standing.position}"))
    elif at < standing.position:
        faults.append(_fault(standing, at, standing.position, "below the position, and accounted for by nothing"))
    return faults


def _fault(standing: Standing, start: int, until: int, what: str) -> Fault:
    range_ = Range(standing.partition, min(start, until), max(start, until))
    return Fault("ledger", f"the ledger does not add up: {what}.", range_, None, standing.generation)


def _read_standings(connection: Connection, pipeline: str) -> list[Standing]:
    return [
        Standing(
            row.generation,
            row.partition,
            row.origin,
            row.position,
            *(_to_ranges(row.partition, pairs) for pairs in (row.covered, row.lost, row.gaps)),
        )
        for row in read_partitions(connection, pipeline)
    ]


def _to_ranges(partition: int, bounds: Sequence[Sequence[int]]) -> tuple[Range, ...]:
    return tuple(sorted(Range(partition, start, until) for start, until in bounds))
