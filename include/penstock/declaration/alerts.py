"""The routes of alerts: where the notices about a pipeline go, by severity."""

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, StrictStr

from penstock.declaration.durations import parse_duration
from penstock.declaration.parts import STRICT

DAILY = "24h"
ALLOWED = "the id of a connection, or a list of {to, severity, remind}"


def check_connection(connection: str) -> str:
    """Refuse a text that is not the id of a connection."""
    # The message does not quote the value, because it may be a URL with a password.
    if not re.fullmatch(r"[A-Za-z0-9_.\-]{1,200}", connection):
        raise ValueError(
            "not a valid id of an Airflow connection; allowed: letters, digits, '.', '_' and '-'; "
            "addresses and passwords belong in the connection"
        )
    return connection


def _check_remind(text: str | None) -> str | None:
    if text is not None:
        parse_duration(text)
    return text


class Route(BaseModel):
    """One receiver of alerts."""

    model_config = STRICT

    to: Annotated[StrictStr, AfterValidator(check_connection)] = Field(
        description="the id of the connection that holds the receivers"
    )
    severity: Literal["error", "warning"] | None = Field(
        default=None, description="error: incidents at once; warning: a daily digest of warnings; null: both"
    )
    remind: Annotated[StrictStr | None, AfterValidator(_check_remind)] = Field(
        default=DAILY, description="how often to repeat the notice of an open incident, such as 12h; null for never"
    )

    @property
    def remind_after(self) -> timedelta | None:
        """The time between two notices of an open incident."""
        return None if self.remind is None else parse_duration(self.remind)


def _read_routes(given: object) -> object:
    """Read the short form: one connection for everything."""
    if given is None:
        return ()
    if isinstance(given, str):
        return ({"to": given},)
    # The message quotes nothing, for the same reason.
    if not isinstance(given, list | tuple) or not all(isinstance(each, dict | Route) for each in given):
        raise ValueError(f"is not a list of mappings; allowed: {ALLOWED}")
    return given


def _check_routes(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    taken: set[tuple[str, str]] = set()
    for route in routes:
        severities = [route.severity] if route.severity else ["error", "warning"]
        wanted = {(route.to, severity) for severity in severities}
        if taken & wanted:
            raise ValueError(f"{route.to} would get the same notice twice; allowed: each connection once a severity")
        taken |= wanted
    return routes


Routes = Annotated[tuple[Route, ...], BeforeValidator(_read_routes), AfterValidator(_check_routes)]
