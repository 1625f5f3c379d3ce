"""Incidents: each is one cause of trouble of one pipeline, from its first sight to its end. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.declaration.parts import Severity
    from penstock.model.ranges import Range


class IncidentKind(StrEnum):
    """The kind of an incident. The ledger, the views and the JSON documents hold the same words."""

    HELD_LOAD = "held_load"
    BLOCKED_PIPELINE = "blocked_pipeline"
    OTHER_TOPIC = "other_topic"
    LOSS = "loss"
    QUARANTINE_LIMIT = "quarantine_limit"
    FAILING_STAGE = "failing_stage"
    FAILING_RUN = "failing_run"
    OVERDUE_LOAD = "overdue_load"
    FAILED_CHECK = "failed_check"
    FAILED_VERIFICATION = "failed_verification"
    RETENTION_HEADROOM = "retention_headroom"
    STUCK_TRANSACTION = "stuck_transaction"
    UNMERGED_LEAVES = "unmerged_leaves"


# Incidents of these kinds, and overdue loads, end with the next load that is published, or that has nothing to load.
FAILURES = (IncidentKind.QUARANTINE_LIMIT, IncidentKind.FAILING_STAGE, IncidentKind.FAILING_RUN)
# A hold of a pipeline is an incident of one of these kinds.
HOLDS = (IncidentKind.BLOCKED_PIPELINE, IncidentKind.OTHER_TOPIC)
# A warning goes into the daily digest. Every other incident is sent at once.
WARNINGS = (IncidentKind.FAILED_CHECK,)
# The key of the failures of live loads: the next live load loads the same offsets again.
LIVE = "live"
# The keys of incidents that concern one load begin with this.
OF_LOAD = "load "


@dataclass(frozen=True, slots=True)
class Sighting:
    """An incident as one process sees it.

    Sightings with the same pipeline, kind and key belong to one incident while it is open. `is_over` marks an incident
    that is over when it is recorded, such as a loss.
    """

    pipeline: str
    kind: IncidentKind
    key: str
    message: str
    next_step: str
    load: int | None = None
    ranges: tuple[Range, ...] = ()
    link: str | None = None
    is_over: bool = False

    @property
    def severity(self) -> Severity:
        """The severity decides the routes of the notices."""
        return "warning" if self.kind in WARNINGS else "error"


def key_of_load(load_id: int) -> str:
    """The key of incidents that concern one load."""
    return f"{OF_LOAD}{load_id}"
