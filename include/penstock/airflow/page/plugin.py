"""The plugin: the page in the navigation, a tab on the DAG of each pipeline, and the order of the daily tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from penstock.airflow.longest_wait import LongestWaitFirst

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from fastapi import FastAPI

PREFIX = "/penstock"


class LateApp:
    """The application, made by the first request.

    Schedulers, triggerers and tasks import every plugin, and none of them serves a request: FastAPI, Airflow's models
    and psycopg are not imported there.
    """

    def __init__(self) -> None:
        self._app: FastAPI | None = None

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Serve a request."""
        if self._app is None:
            from penstock.airflow.page.app import make_app

            self._app = make_app()
        await self._app(scope, receive, send)


def find_bundle() -> str:
    """The path of the bundle; Airflow may be served below a path of its host."""
    base = urlparse(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    return f"{base}{PREFIX}/bundle.js"


class PenstockPlugin(AirflowPlugin):  # type: ignore[misc]
    """Registers the page, and the order of the daily tasks."""

    name = "penstock"
    fastapi_apps = [{"app": LateApp(), "url_prefix": PREFIX, "name": "Penstock"}]  # noqa: RUF012 - Airflow's interface
    react_apps = [  # noqa: RUF012
        {
            "name": "Penstock",
            "bundle_url": find_bundle(),
            "destination": "nav",
            "category": "browse",
            "url_route": "penstock",
        },
        {"name": "Penstock", "bundle_url": find_bundle(), "destination": "dag", "url_route": "penstock-dag"},
    ]
    priority_weight_strategies = [LongestWaitFirst]  # noqa: RUF012
