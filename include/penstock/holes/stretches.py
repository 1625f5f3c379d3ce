"""Stretches of published ranges, and their holes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.holes.kinds import Hole
from penstock.ledger import hole
from penstock.ledger.generation import read_newest_generation_of
from penstock.target.postgres.table import target_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.declaration.pipeline import Target
    from penstock.ledger.connection import Connection
    from penstock.ledger.generation import Generation
    from penstock.ledger.hole import Stretch

# The offsets of one window are examined and recorded together. At most half as many holes are in memory.
WINDOW = 250_000


def find_generation(connection: Connection, pipeline: str) -> Generation | None:
    """Find the generation that is loaded now; None before the first plan."""
    return read_newest_generation_of(connection, pipeline)


def split_stretch(stretch: Stretch) -> Iterator[Stretch]:
    """Split a stretch into windows."""
    for start in range(stretch.from_offset, stretch.until_offset, WINDOW):
        yield replace(stretch, from_offset=start, until_offset=min(start + WINDOW, stretch.until_offset))


def find_holes(connection: Connection, target: Target, window: Stretch) -> list[Hole]:
    """Find the holes of a window; neighbouring offsets are one hole."""
    return hole.find_holes(connection, Hole, target_identifier(target), window)
