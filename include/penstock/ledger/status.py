"""The ledger's side of the status of pipelines, of their progress, and of what `doctor` judges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ledger.statements import Statements
from penstock.model.incident import FAILURES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from penstock.errors import HoldKind
    from penstock.ledger.connection import Connection
    from penstock.model.load import LoadState

_statements = Statements("ledger/status")


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A pipeline in the ledger; the columns of a generation, a load, a hold and a fault are None without one."""

    name: str
    generation_id: int | None
    cluster_id: str | None
    topic_id: str | None
    load_id: int | None
    state: LoadState | None
    cause: str | None
    transform_sha256: str | None
    since: datetime | None
    idle_seconds: float | None
    somebody_works: bool
    hold: HoldKind | None
    hold_cause: str | None
    began_at: datetime | None
    gaps: int
    lost: int
    backfills: list[int] | None
    held_redrives: list[int] | None
    waiting_results: list[str] | None
    verification_id: int | None
    faults: int
    first_fault: str | None
    failure: str | None
    failure_step: str | None


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of one partition of a load that is being staged."""

    partition: int
    planned: int
    done: int
    rows_per_second: int


@dataclass(frozen=True, slots=True)
class KnownPipeline:
    """The topic that a pipeline has loaded so far, its positions, and how many leaves its target has."""

    name: str
    cluster_id: str
    topic_id: str
    leaves: int
    positions: Mapping[str, int]


def read_pipelines(connection: Connection, names: Sequence[str], *, count_gaps: bool = True) -> list[PipelineRow]:
    """Read pipelines by their names. Without `count_gaps` their gaps are 0: the caller knows them."""
    where = {"names": list(names), "count_gaps": count_gaps, "failures": list(map(str, FAILURES))}
    return _statements.fetch_all(connection, PipelineRow, "read_pipelines", **where)


def read_progress(connection: Connection, pipeline: str) -> list[PartitionProgress]:
    """Read the progress of the load of a pipeline that is being staged."""
    return _statements.fetch_all(connection, PartitionProgress, "read_progress", pipeline=pipeline)


def read_known(connection: Connection, names: Sequence[str], targets: Sequence[str]) -> list[KnownPipeline]:
    """Read pipelines by their names, with their targets; no row before a pipeline's first plan."""
    return _statements.fetch_all(connection, KnownPipeline, "read_known", names=list(names), targets=list(targets))
