"""The faults that a verification can find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from penstock.model.ranges import Range

FaultKind = Literal[
    "ledger",  # positions, coverage, loads and losses do not add up
    "rows_missing",
    "rows_too_many",
    "rows_outside",  # rows with the number of a load that does not cover their offset: no load published them
    "rows_changed",
    "quarantine",
    "log_changed",  # the log holds other records than were loaded
    "hole",
    "result",  # a result is not what the rows give
]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, with the smallest range that it could be located in."""

    kind: FaultKind
    message: str
    range: Range | None = None
    load: int | None = None
    generation: int | None = None

    def __str__(self) -> str:
        where = f"{self.range}: " if self.range else ""
        load = f"load {self.load}, " if self.load is not None and self.range else ""
        return f"{load}{where}{self.message}"
