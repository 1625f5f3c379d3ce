"""An alert: its kind, and its text for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.errors import name_ranges

if TYPE_CHECKING:
    from penstock.model.ranges import Range

AlertKind = Literal["hold_began", "hold_ended", "load_failed", "loss_recorded", "audit_failed", "leaves_left_out"]
HEADINGS: dict[AlertKind, str] = {
    "hold_began": "is held",
    "hold_ended": "is no longer held",
    "load_failed": "failed",
    "loss_recorded": "has lost records, and continues without them",
    "audit_failed": "did not pass its audit",
    "leaves_left_out": "has partitions that cannot be merged",
}


@dataclass(frozen=True, slots=True)
class Alert:
    """A message about a load, or about a pipeline itself: then it names its hold or its losses.

    `link` leads to the run; `load` is None if none was planned.
    """

    pipeline: str
    kind: AlertKind
    reason: str
    next_step: str
    load: int | None = None
    ranges: tuple[Range, ...] = ()
    link: str | None = None
    hold: int | None = None
    losses: tuple[int, ...] = ()


def render_title(alert: Alert) -> str:
    """The event in one line."""
    if alert.hold is not None or alert.losses or alert.kind in ("audit_failed", "leaves_left_out"):
        return f"Penstock: {alert.pipeline} {HEADINGS[alert.kind]}"
    subject = f"load {alert.load}" if alert.load is not None else "a run"
    return f"Penstock: {subject} of {alert.pipeline} {HEADINGS[alert.kind]}"


def render_body(alert: Alert) -> str:
    """The facts that a person needs to act, as plain text."""
    ranges = name_ranges(alert.ranges) or ("" if alert.hold is not None else "none planned")
    facts = {
        "Pipeline": alert.pipeline,
        "Load": "none" if alert.load is None else str(alert.load),
        "Offsets": ranges,
        "Reason": alert.reason,
        "What to do": alert.next_step,
        "Run": alert.link,
    }
    return "\n".join(f"{name}: {' '.join(value.split())}" for name, value in facts.items() if value)
