"""The routes of alerts: where the notices about a pipeline go."""

from typing import Literal

from pydantic import BaseModel

from penstock.declaration.parts import STRICT

Severity = Literal["error", "warning", "info"]
REMIND_HOURS = 24


class Route(BaseModel):
    """One receiver of alerts: the id of a connection, the severity it takes, and how often it is reminded."""

    model_config = STRICT

    to: str
    severity: Literal["error", "warning"] | None = None
    remind_hours: int | None = REMIND_HOURS
