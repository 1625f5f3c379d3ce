"""A load: an immutable plan of ranges, its state, and the changes of state that are allowed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from penstock.declaration.parts import Severity
    from penstock.declaration.pipeline import Pipeline
    from penstock.model.ranges import Range

Kind = Literal["live", "backfill", "replay", "redrive"]


class LoadState(StrEnum):
    """The state of a load. The ledger, the views and the JSON documents hold the same words."""

    PLANNED = "planned"
    STAGING = "staging"
    STAGED = "staged"
    VALIDATED = "validated"
    HELD = "held"
    PUBLISHED = "published"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    DISCARDED = "discarded"
    ROLLED_BACK = "rolled_back"


_STOPPED = {LoadState.SUPERSEDED, LoadState.DISCARDED}

# The changes of state that the UPDATE statements of the ledger make; tests/unit/test_load_states.py compares.
TRANSITIONS: dict[LoadState, frozenset[LoadState]] = {
    # A redrive that fails ends as failed from any of its steps, because no later run continues it.
    LoadState.PLANNED: frozenset({LoadState.STAGING, LoadState.FAILED, *_STOPPED}),
    # A new attempt at staging leaves the state as it is.
    LoadState.STAGING: frozenset({LoadState.STAGING, LoadState.STAGED, LoadState.FAILED, *_STOPPED}),
    LoadState.STAGED: frozenset({LoadState.VALIDATED, LoadState.HELD, LoadState.FAILED, *_STOPPED}),
    LoadState.HELD: frozenset({LoadState.VALIDATED, *_STOPPED}),
    # The statements of a result may fail in the publish transaction.
    LoadState.VALIDATED: frozenset({LoadState.PUBLISHED, LoadState.HELD, LoadState.FAILED, *_STOPPED}),
    # A replay supersedes a load when it has replaced all of its ranges.
    LoadState.PUBLISHED: frozenset({LoadState.ROLLED_BACK, LoadState.SUPERSEDED}),
    LoadState.ROLLED_BACK: frozenset({LoadState.PUBLISHED}),
    # A resumed backfill supersedes a failed load by a new load of the same ranges, and a cancelled one discards it.
    LoadState.FAILED: frozenset(_STOPPED),
    # The rollback of a redrive returns the records of the loads that the redrive has superseded.
    LoadState.SUPERSEDED: frozenset({LoadState.PUBLISHED}),
    LoadState.DISCARDED: frozenset(),
}

OPEN_STATES = (
    LoadState.PLANNED,
    LoadState.STAGING,
    LoadState.STAGED,
    LoadState.VALIDATED,
    LoadState.HELD,
)
END_STATES = tuple(state for state in LoadState if state not in OPEN_STATES)
# All offsets of the plan are staged, and the attempt that staged them still counts.
STAGED_STATES = (LoadState.STAGED, LoadState.VALIDATED, LoadState.HELD, LoadState.PUBLISHED)


@dataclass(frozen=True, slots=True)
class Load:
    """A load as the ledger holds it."""

    load_id: int
    pipeline_id: int
    pipeline: str
    generation_id: int
    kind: Kind
    state: LoadState
    attempt: int
    run_id: str
    declaration: Pipeline
    ranges: tuple[Range, ...]
    cause: str | None
    rows: int | None
    quarantined: int | None
    holes: int | None
    filtered: int | None
    transform_sha256: str | None
    superseded_by: int | None
    cluster_id: str
    topic_id: str
    application_id: str | None
    backfill_id: int | None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one expectation, for one partition or for the whole load."""

    kind: Literal["builtin", "declared", "rule"]
    expectation: str
    partition: int | None
    column: str | None
    severity: Severity
    success: bool
    observed: dict[str, Any]
    suite: str | None = None  # the suite of files that a declared check comes from
    check_id: str | None = None  # the same for the same expectation with the same arguments
