"""The choice of the loads that a verification counts: all of them, or the new ones and a rotating share. Pure.

The unit is a leaf of the target with all of its loads, because rows outside the ranges of their load are found only by
reading a whole leaf. Maintenance merges leaves by powers of ten, so a load becomes new again once for each level.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.ledger.verification import CountedLeaf

# PostgreSQL counts and hashes so many rows in about 12 s. A smaller target is counted as a whole each time.
AT_LEAST = 10_000_000
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Rotation:
    """The number of days within which every load is counted again, if a verification runs on each day."""

    days: int
    at_least: int = AT_LEAST

    def choose(self, leaves: Sequence[CountedLeaf], now: datetime) -> list[CountedLeaf]:
        """Choose the leaves with loads that are new or due, then the oldest ones up to the share of a day."""
        share = max(self.at_least, -(-sum(leaf.rows for leaf in leaves) // self.days))
        # A leaf that waited until the next day would exceed the number of days.
        due = now - (self.days - 1) * DAY
        new = [leaf for leaf in leaves if leaf.counted_at is None]
        counted = sorted((leaf.counted_at, leaf) for leaf in leaves if leaf.counted_at is not None)
        chosen, rows = new, sum(leaf.rows for leaf in new)
        for counted_at, leaf in counted:
            if counted_at <= due or rows + leaf.rows <= share or not chosen:
                chosen.append(leaf)
                rows += leaf.rows
        return sorted(chosen)
