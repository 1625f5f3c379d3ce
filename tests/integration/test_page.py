"""The page in a real Airflow: its routes, its modules, and who may call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from fix_airflow import AirflowSite

pytestmark = pytest.mark.timeout(1200)
COLUMNS = {"id": {"type": "bigint", "required": True}}


@pytest.fixture(scope="module")
def page(airflow: AirflowSite) -> AirflowSite:
    """Airflow with two pipelines that were never loaded."""
    for name in ("orders", "clicks"):
        airflow.write_pipeline(
            name, topic="nothing", schedule=None, value="json", columns=COLUMNS, target=f"analytics.{name}"
        )
    return airflow


def test_the_page_is_in_the_navigation_and_on_each_dag(page: AirflowSite) -> None:
    apps = page.get("plugins")["plugins"]
    [plugin] = [each for each in apps if each["name"] == "penstock"]
    assert [(app["destination"], app["bundle_url"]) for app in plugin["react_apps"]] == [
        ("nav", "/penstock/bundle.js"),
        ("dag", "/penstock/bundle.js"),
    ]
    assert page.get("plugins/importErrors")["import_errors"] == []


def test_modules_are_served_to_users_and_only_once(page: AirflowSite) -> None:
    bundle = _get(page, "bundle.js")
    assert bundle.headers["content-type"].startswith("text/javascript")
    module = _get(page, "ui/main.js")
    assert "globalThis.AirflowPlugin" in module.text
    again = _get(page, "ui/main.js", {"If-None-Match": module.headers["etag"]})
    assert (again.status_code, again.text) == (304, "")
    assert _get(page, "ui/..%2Fapp.py").status_code == 404


def test_the_list_shows_the_declared_pipelines(page: AirflowSite) -> None:
    answer = _get(page, "api/pipelines").json()
    assert [(each["name"], each["target"]) for each in answer["pipelines"]] == [
        ("clicks", "analytics.clicks"),
        ("orders", "analytics.orders"),
    ]


def test_a_pipeline_without_a_load_has_a_page_and_an_unknown_one_has_none(page: AirflowSite) -> None:
    answer = _get(page, "api/pipelines/orders").json()
    assert (answer["name"], answer["generation"], answer["load"], answer["busy"]) == ("orders", None, None, False)
    missing = _get(page, "api/pipelines/nothing")
    assert (missing.status_code, "nothing is not a pipeline" in missing.text) == (404, True)


def _get(page: AirflowSite, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
    sent = {"Authorization": page.api.headers["Authorization"], **(headers or {})}
    return httpx.get(f"{page.web.url}/penstock/{path}", headers=sent, timeout=60)
