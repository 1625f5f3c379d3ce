"""A load: an immutable plan of ranges, and its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.model.ranges import Range

Kind = Literal["live", "backfill", "replay"]


OPEN_STATES = ("planned", "staging", "staged", "validated", "held")


@dataclass(frozen=True, slots=True)
class Load:
    """A load as the ledger holds it."""

    load_id: int
    pipeline_id: int
    pipeline: str
    generation_id: int
    kind: Kind
    state: str
    attempt: int
    run_id: str
    declaration: Pipeline
    ranges: tuple[Range, ...]
    cause: str | None
    rows: int | None
    quarantined: int | None
    holes: int | None
    superseded_by: int | None
    cluster_id: str
    topic_id: str
    application_id: str | None
    backfill_id: int | None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one expectation found, for one partition or for the whole load."""

    kind: Literal["builtin", "declared"]
    expectation: str
    partition: int | None
    column: str | None
    severity: Literal["error", "warning"]
    success: bool
    observed: dict[str, Any]
