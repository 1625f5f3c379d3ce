"""Notices as the outbox gives them to the sender, and a sender for tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.alerts.sender import send_due
from penstock.ledger.incident import Notice
from penstock.model.incident import LIVE, IncidentKind

if TYPE_CHECKING:
    from collections.abc import Sequence

BEGAN = datetime(2026, 11, 19, 10, tzinfo=UTC)
NOTICE = Notice(
    notice_id=1,
    notice="opened",
    route="alerts",
    attempts=1,
    incident_id=12,
    pipeline="orders",
    kind=IncidentKind.FAILING_RUN,
    key=LIVE,
    load=None,
    ranges=(),
    message="Kafka does not answer",
    next_step="look at the brokers",
    link=None,
    opened_at=BEGAN,
    last_seen_at=BEGAN,
    times_seen=1,
    ended_at=None,
    ended_by=None,
    ended_why=None,
)


def make_notice(**changes: Any) -> Notice:
    """A notice of a failing run, with changes."""
    return replace(NOTICE, **changes)


def send(db: str, urls: Sequence[str], seconds: float = 5) -> int:
    """Send what is due to these receivers, whatever the route, as the end of a step does."""
    return send_due(db, lambda _: list(urls), seconds)
