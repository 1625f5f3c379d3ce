"""Findings that people must hear of at once, as incidents: records are about to be deleted before they are loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.ledger.incident import end_incidents, see_incident
from penstock.model.incident import IncidentKind, Sighting

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.doctor.examination import Diagnosis
    from penstock.doctor.facts import Finding
    from penstock.ledger.connection import Connection

# The settings whose finding `wrong` is an incident.
URGENT = {"headroom": IncidentKind.RETENTION_HEADROOM, "open transactions": IncidentKind.STUCK_TRANSACTION}


def see_urgent(connection: Connection, pipeline: Pipeline, diagnosis: Diagnosis) -> list[Finding]:
    """Record the urgent findings of a diagnosis as incidents, end those that are over, and return the urgent ones."""
    urgent = []
    for finding in diagnosis.findings:
        kind = URGENT.get(finding.setting)
        if kind is None:
            continue
        if finding.level == "wrong":
            urgent.append(finding)
            message = f"{finding.found}: {finding.told}"
            see_incident(connection, Sighting(pipeline.name, kind, kind, message, finding.change), pipeline.alerts)
        else:
            why = f"{finding.setting}: {finding.found}"
            end_incidents(connection, pipeline.name, [kind], None, by="penstock", why=why)
    return urgent
