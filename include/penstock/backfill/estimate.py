"""How long a backfill will take, told from the loads before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Past:
    """A published load: how many offsets, and the seconds from its first attempt to its publish."""

    offsets: int
    seconds: float


def estimate_seconds(past: Sequence[Past], loads: Sequence[int]) -> float | None:
    """Estimate loads of so many offsets, one after the other; None if nothing has been loaded yet.

    The quickest load tells what every load costs, however small; the rest of the time is shared out to the offsets.
    """
    if not past:
        return None
    fixed = min(load.seconds for load in past)
    rest = sum(load.seconds - fixed for load in past)
    return len(loads) * fixed + sum(loads) * rest / max(1, sum(load.offsets for load in past))
