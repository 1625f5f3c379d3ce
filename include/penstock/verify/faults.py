"""What a verification can find wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from penstock.model.ranges import Range

FaultKind = Literal[
    "ledger",  # positions, coverage, loads and losses do not add up
    "rows_missing",
    "rows_too_many",
    "rows_outside",  # of a load, where it covers nothing: nobody has published them
    "rows_changed",
    "quarantine",
    "log_changed",  # the log gives other records than were loaded
    "hole",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is not as the ledger says, as near as it could be located."""

    kind: FaultKind
    told: str
    range: Range | None = None
    load: int | None = None
    generation: int | None = None

    def __str__(self) -> str:
        where = f"{self.range}: " if self.range else ""
        load = f"load {self.load}, " if self.load is not None and self.range else ""
        return f"{load}{where}{self.told}"
