"""The texts of notices: what happened, where, since when, how often, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock import advice
from penstock.errors import name_ranges
from penstock.model.incident import FAILURES, IncidentKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.ledger.incident import Notice

# The words of a title for the begin and for the end. Its subject is the load for the kinds in ABOUT_LOADS, or else the
# pipeline.
HEADINGS: dict[IncidentKind, tuple[str, str]] = {
    IncidentKind.HELD_LOAD: ("is held", "is no longer held"),
    IncidentKind.BLOCKED_PIPELINE: ("is held", "is no longer held"),
    IncidentKind.OTHER_TOPIC: ("is held", "is no longer held"),
    IncidentKind.LOSS: ("has lost records, and continues without them", "has recorded its loss"),
    IncidentKind.QUARANTINE_LIMIT: ("failed", "loads again"),
    IncidentKind.FAILING_STAGE: ("failed", "loads again"),
    IncidentKind.FAILING_RUN: ("failed", "loads again"),
    IncidentKind.OVERDUE_LOAD: ("is overdue", "is no longer overdue"),
    IncidentKind.FAILED_CHECK: ("did not pass a check", "passes a check again"),
    IncidentKind.FAILED_VERIFICATION: ("did not pass its audit", "passes its audit again"),
    IncidentKind.RETENTION_HEADROOM: ("is about to lose records", "is no longer about to lose records"),
    IncidentKind.STUCK_TRANSACTION: ("has records behind an open transaction", "has no such transaction any more"),
    IncidentKind.UNMERGED_LEAVES: ("has partitions that cannot be merged", "has no such partition any more"),
}
ABOUT_LOADS = (IncidentKind.HELD_LOAD, *FAILURES)
# A digest lists at most this many incidents.
MOST_LISTED = 50


@dataclass(frozen=True, slots=True)
class Message:
    """A message to people. `type` decides its colour at receivers that have colours."""

    title: str
    body: str
    type: Literal["failure", "warning", "success"]


def write_notice(notice: Notice) -> Message:
    """Write the message of a notice that is sent alone."""
    is_end = notice.notice == "ended"
    prefix = "Penstock: reminder: " if notice.notice == "reminder" else "Penstock: "
    title = f"{prefix}{name_subject(notice)} {HEADINGS[notice.kind][is_end]}"
    return Message(title, "\n".join(_list_facts(notice)), "success" if is_end else "failure")


def write_digest(notices: Sequence[Notice]) -> Message:
    """Write one message of all warnings that are due for a receiver."""
    incidents = {notice.incident_id: notice for notice in notices}
    count = len(incidents)
    parts = [
        f"{name_subject(notice)} {HEADINGS[notice.kind][0]}\n" + "\n".join(_list_facts(notice))
        for notice in list(incidents.values())[:MOST_LISTED]
    ]
    if count > MOST_LISTED:
        parts.append(f"and {count - MOST_LISTED} more: see penstock.incidents")
    title = f"Penstock: {count} {'warning' if count == 1 else 'warnings'}"
    return Message(title, "\n\n".join(parts), "warning")


def write_failure(pipeline: str, reason: str, next_step: str, link: str) -> Message:
    """Write the message of a failure that the ledger could not record."""
    facts = {"Pipeline": pipeline, "Reason": reason, "What to do": next_step, "Run": link}
    body = "\n".join(f"{name}: {' '.join(value.split())}" for name, value in facts.items() if value)
    return Message(f"Penstock: a run of {pipeline} failed", body, "failure")


def name_subject(notice: Notice) -> str:
    """The load or the pipeline that an incident is about."""
    if notice.kind not in ABOUT_LOADS or (notice.notice == "ended" and notice.kind in FAILURES):
        return notice.pipeline
    return f"load {notice.load} of {notice.pipeline}" if notice.load is not None else f"a run of {notice.pipeline}"


def _list_facts(notice: Notice) -> list[str]:
    """The facts that a person needs to act, one a line."""
    is_over = notice.ended_at is not None
    reason = notice.message
    if notice.notice == "ended" and notice.ended_why:
        reason = f"{notice.ended_why}. It was: {notice.message}"
    facts = {
        "Pipeline": notice.pipeline,
        "Load": "none" if notice.load is None else str(notice.load),
        "Offsets": name_ranges(notice.ranges) or ("none planned" if notice.kind in ABOUT_LOADS else ""),
        "Reason": reason,
        "What to do": advice.PIPELINE_CONTINUES if notice.notice == "ended" else notice.next_step,
        "Since": write_time(notice.opened_at),
        "Ended": write_time(notice.ended_at) if notice.ended_at and notice.kind != IncidentKind.LOSS else "",
        "Seen": f"{notice.times_seen} times, last at {write_time(notice.last_seen_at)}"
        if notice.times_seen > 1
        else "",
        "Run": notice.link or "",
        "Incident": str(notice.incident_id) if is_over else name_incident(notice.incident_id),
    }
    return [f"{name}: {' '.join(value.split())}" for name, value in facts.items() if value]


def name_incident(incident_id: int) -> str:
    """The number of an incident that is still open, and the command that mutes it."""
    return f"{incident_id} (for silence: `penstock mute {incident_id} --for 1d --why …`)"


def write_time(moment: datetime) -> str:
    """A time in UTC, without fractions of a second."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
