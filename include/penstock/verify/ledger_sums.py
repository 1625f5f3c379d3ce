"""The checks that need the ledger only: positions, coverage, losses, gaps and loads must add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ledger.verification import ALL_LOADS, find_odd_loads, read_partitions
from penstock.model.ranges import Range
from penstock.verify.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.ledger.connection import Connection
    from penstock.ledger.verification import CountedLeaf


@dataclass(frozen=True, slots=True)
class PartitionAccount:
    """A partition in the ledger: its origin, its position, and how the offsets between them are accounted for."""

    generation: int
    partition: int
    origin: int
    position: int
    covered: tuple[Range, ...]
    lost: tuple[Range, ...]
    gaps: tuple[Range, ...]
    counted: int | None = None  # the number of covered offsets that is kept with the position


def find_ledger_faults(connection: Connection, pipeline: str, leaves: Sequence[CountedLeaf] = ALL_LOADS) -> list[Fault]:
    """Find the contradictions in the ledger of a pipeline: of all partitions, and of the loads of some leaves."""
    faults = [fault for account in _read_accounts(connection, pipeline) for fault in check_account(account)]
    odd = find_odd_loads(connection, pipeline, leaves)
    return faults + [Fault("ledger", load.message, None, load.load_id, load.generation_id) for load in odd]


def check_account(account: PartitionAccount) -> list[Fault]:
    """Check that every offset from the origin to the position, and no other, is covered, lost or a gap, and once."""
    faults = []
    at = account.origin
    parts = [(range_, "covered") for range_ in account.covered] + [(range_, "lost") for range_ in account.lost]
    parts += [(range_, "a gap") for range_ in account.gaps]
    for range_, state in sorted(parts):
        if range_.from_offset < at:
            faults.append(_make_fault(account, range_.from_offset, at, f"{state}, and accounted for a second time"))
        elif range_.from_offset > at:
            faults.append(_make_fault(account, at, range_.from_offset, "neither covered, nor lost, nor a gap"))
        at = max(at, range_.until_offset)
    if at > account.position:
        faults.append(_make_fault(account, account.position, at, f"beyond the position {account.position}"))
    elif at < account.position:
        faults.append(_make_fault(account, at, account.position, "neither covered, nor lost, nor a gap"))
    covered = sum(map(len, account.covered))
    if account.counted not in (None, covered):
        message = f"counted as {account.counted} covered offsets, and {covered} are covered"
        faults.append(_make_fault(account, account.origin, account.position, message))
    return faults


def _make_fault(account: PartitionAccount, start: int, until: int, problem: str) -> Fault:
    range_ = Range(account.partition, min(start, until), max(start, until))
    message = f"the ledger does not add up: these offsets are {problem}."
    return Fault("ledger", message, range_, None, account.generation)


def _read_accounts(connection: Connection, pipeline: str) -> list[PartitionAccount]:
    return [
        PartitionAccount(
            row.generation,
            row.partition,
            row.origin,
            row.position,
            _to_ranges(row.partition, row.covered),
            _to_ranges(row.partition, row.lost),
            _to_ranges(row.partition, row.gaps),
            row.counted,
        )
        for row in read_partitions(connection, pipeline)
    ]


def _to_ranges(partition: int, bounds: Sequence[Sequence[int]]) -> tuple[Range, ...]:
    return tuple(sorted(Range(partition, start, until) for start, until in bounds))
