"""The receivers of a route without Airflow: the environment holds the same connections, or one list for all routes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from penstock import advice
from penstock.alerts.delivery import read_alert_targets
from penstock.errors import WrongUseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.alerts.sender import FindUrls

ALERTS, CONNECTION = "PENSTOCK_ALERTS", "AIRFLOW_CONN_"


def find_routes(environment: Mapping[str, str]) -> FindUrls | None:
    """Find the receivers in an environment; None if it names none, so that nothing has to be sent by this process.

    AIRFLOW_CONN_<ID> holds the receivers of the route <id>, as JSON or as a URI, as Airflow reads it. PENSTOCK_ALERTS
    holds apprise URLs for all other routes.
    """
    if not environment.get(ALERTS) and not any(name.startswith(CONNECTION) for name in environment):
        return None

    def find(route: str) -> list[str] | None:
        connection = environment.get(f"{CONNECTION}{route.upper()}")
        if connection:
            return read_connection(connection, f"{CONNECTION}{route.upper()}")
        return read_alert_targets(environment.get(ALERTS)) or None

    return find


def read_connection(value: str, source: str) -> list[str]:
    """Read the apprise URLs of a connection in Airflow's JSON or URI. Errors quote no part of it: it holds tokens."""
    if value.lstrip().startswith("{"):
        fields = _read_object(value, source)
        extra = fields.get("extra") or {}
        # Airflow takes an object, and the text of one.
        text = extra if isinstance(extra, str) else json.dumps(extra)
        password, host = (str(fields.get(name) or "") for name in ("password", "host"))
        return read_alert_targets(password, host, _read_object(text, f"`extra` of {source}"))
    try:
        password = urlsplit(value).password or ""
    except ValueError:
        raise WrongUseError(f"{source} is not a URI.", next_step=advice.WRITE_ALERT_CONNECTION) from None
    return read_alert_targets(unquote(password))


def _read_object(text: str, source: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise WrongUseError(
            f"{source} begins like JSON and is not valid: {error.msg} at character {error.pos + 1}.",
            next_step=advice.WRITE_ALERT_CONNECTION,
        ) from None
    if not isinstance(found, dict):
        raise WrongUseError(f"{source} is not an object of JSON.", next_step=advice.WRITE_ALERT_CONNECTION)
    return found
