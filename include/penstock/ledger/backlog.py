"""The positions of many pipelines at once, for the look that compares them with the ends of their logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ledger.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.ledger.connection import Connection

_statements = Statements("ledger/backlog")


@dataclass(frozen=True, slots=True)
class KnownPositions:
    """The positions of a pipeline; none before its first plan. A busy pipeline has an open load, or is held."""

    pipeline: str
    positions: Mapping[int, int]
    is_busy: bool


def read_backlogs(connection: Connection, pipelines: Sequence[str]) -> list[KnownPositions]:
    """Read the positions of pipelines, and which pipelines are busy."""
    return _statements.fetch_all(connection, _make, "read_backlogs", names=list(pipelines))


def _make(pipeline: str, positions: Mapping[str, int], is_busy: bool) -> KnownPositions:
    return KnownPositions(pipeline, {int(partition): position for partition, position in positions.items()}, is_busy)
