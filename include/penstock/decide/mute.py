"""A person mutes an incident until a time: its notices wait, and the incident stays open."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock import advice
from penstock.declaration.durations import parse_duration
from penstock.errors import WrongUseError
from penstock.ledger.connection import open_ledger
from penstock.ledger.event import require_reason
from penstock.ledger.incident import change_mute, read_incident
from penstock.model.times import read_time

if TYPE_CHECKING:
    from penstock.ledger.incident import Incident


def mute_incident(uri: str, incident_id: int, until: datetime, who: str, why: str) -> Incident:
    """Mute an open incident until a time. The mute also holds for the same trouble if it ends and comes back."""
    require_reason(who, why)
    if until <= datetime.now(UTC):
        raise WrongUseError(f"{until.isoformat()} is not in the future.", next_step=advice.GIVE_END_OF_MUTE)
    return _change(uri, incident_id, until, who, why)


def unmute_incident(uri: str, incident_id: int, who: str, why: str) -> Incident:
    """End the mute of an incident: the notices that waited are due."""
    require_reason(who, why)
    return _change(uri, incident_id, None, who, why)


def _change(uri: str, incident_id: int, until: datetime | None, who: str, why: str) -> Incident:
    with open_ledger(uri) as connection:
        if not change_mute(connection, incident_id, until, who, why):
            found = read_incident(connection, incident_id)
            problem = f"incident {incident_id} has ended." if found else f"there is no incident {incident_id}."
            raise WrongUseError(problem, next_step=advice.LIST_INCIDENTS)
        found = read_incident(connection, incident_id)
        if found is None:
            raise WrongUseError(f"there is no incident {incident_id}.", next_step=advice.LIST_INCIDENTS)
        return found


def read_end(for_: str | None, until: str | None, now: datetime) -> datetime:
    """Read the end of a mute: a duration such as 30m, 12h or 7d, or an ISO time with a zone."""
    if (for_ is None) == (until is None):
        raise WrongUseError("one of --for and --until is needed.", next_step=advice.GIVE_END_OF_MUTE)
    if for_ is not None:
        try:
            return now + parse_duration(for_)
        except ValueError as error:
            raise WrongUseError(f"--for {for_[:100]}: {error}.", next_step=advice.GIVE_END_OF_MUTE) from error
    return read_time(until or "", advice.GIVE_END_OF_MUTE)
