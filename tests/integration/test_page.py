"""The page in a real Airflow: its routes, its modules, and who may call them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest

from declaring import COLUMNS, declare
from fix_airflow import CANARY
from fix_loads import stage_rows
from penstock.airflow.page.rights import ACTIONS
from penstock.ledger.coverage import cover_ranges
from penstock.ledger.generation import move_positions
from penstock.ledger.load import publish_load, read_load
from penstock.model.ranges import Range
from privileges import superuser

if TYPE_CHECKING:
    from fix_airflow import AirflowSite

pytestmark = pytest.mark.timeout(1200)


DOCS = Path(__file__).parents[2] / "docs" / "reference" / "page.md"
RIGHTS = re.compile(r"<!-- rights -->\n(.*?)<!-- end of rights -->", re.DOTALL)
GUEST, MAY_READ = "guest", "clicks"  # as in airflow_of_guests/airflow_local_settings.py
ROLES = ("viewer", "user", "op", "admin")
PAYLOAD = "api/pipelines/{dag_id}/quarantine/payload"
SECRET_IN_A_RECORD = "canary-0815-of-a-record"


@pytest.fixture(scope="module")
def page(airflow: AirflowSite) -> AirflowSite:
    """Airflow with two pipelines. One has a load whose only record is in the quarantine."""
    for name in ("orders", "clicks"):
        airflow.write_pipeline(
            name, topic="nothing", schedule=None, value="json", columns=COLUMNS, target=f"analytics.{name}"
        )
    pipeline = declare("nothing")
    load_id = stage_rows(airflow.loads, [Range(0, 0, 1)], pipeline=pipeline, quarantined=[(0, 0)])
    with psycopg.connect(superuser(airflow.loads)) as connection:
        connection.execute(
            "update penstock.quarantine set key = %(text)s, value = %(text)s", {"text": SECRET_IN_A_RECORD.encode()}
        )
        connection.execute("update penstock.load set state = 'validated', validated_at = now()")
        move_positions(connection, read_load(connection, load_id))
        cover_ranges(connection, read_load(connection, load_id))
        publish_load(connection, read_load(connection, load_id))
    return airflow


@pytest.fixture(scope="module")
def people(page: AirflowSite) -> dict[str, dict[str, str]]:
    """The headers of a request of each person."""
    passwords = json.loads((page.web.folder / "passwords.json").read_text(encoding="utf-8"))
    return {"anonymous": {}} | {role: _log_in(page, role, passwords[role]) for role in ROLES}


def _log_in(page: AirflowSite, name: str, password: str) -> dict[str, str]:
    reply = httpx.post(f"{page.web.url}/auth/token", json={"username": name, "password": password}, timeout=60)
    return {"Authorization": f"Bearer {reply.raise_for_status().json()['access_token']}"}


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
    answer = _get(page, "api/pipelines/clicks").json()
    assert (answer["name"], answer["generation"], answer["load"], answer["busy"]) == ("clicks", None, None, False)
    missing = _get(page, "api/pipelines/nothing")
    assert (missing.status_code, "nothing is not a pipeline" in missing.text) == (404, True)


def _list_routes(page: AirflowSite) -> list[str]:
    """All routes, from their description; and those of no description."""
    described = _get(page, "openapi.json").json()["paths"]
    assert all(list(methods) == ["get"] for methods in described.values()), "an action has a route"
    return [*(path.removeprefix("/") for path in described), "bundle.js", "ui/main.js", "openapi.json", "docs", "redoc"]


def _fill(route: str) -> str:
    query = "?partition=0&offset=0" if route == PAYLOAD else ""
    return route.replace("{dag_id}", "orders").replace("{load_id}", "1") + query


def test_rights_of_each_role_on_each_route_are_those_of_the_docs(
    page: AirflowSite, people: dict[str, dict[str, str]]
) -> None:
    """Prints the table of docs/reference/page.md, and compares."""
    lines = [f"| route | {' | '.join(people)} |", f"|---{'|---' * len(people)}|"]
    for route in _list_routes(page):
        found = [_ask(page, _fill(route), headers).status_code for headers in people.values()]
        lines.append(f"| `{route}` | {' | '.join(map(str, found))} |")
    table = "\n".join(lines) + "\n"
    sys.stdout.write(table)
    documented = RIGHTS.search(DOCS.read_text(encoding="utf-8"))
    assert documented is not None
    assert documented.group(1) == table


def test_only_the_payload_route_shows_contents_and_the_ledger_keeps_who_saw_them(
    page: AirflowSite, people: dict[str, dict[str, str]]
) -> None:
    for route in _list_routes(page):
        answer = _ask(page, _fill(route), people["admin"])
        assert (SECRET_IN_A_RECORD in answer.text) == (route == PAYLOAD), route
        assert CANARY not in answer.text, route
        assert ("no-store" in answer.headers.get("cache-control", "")) == (route == PAYLOAD), route
    assert _ask(page, _fill(PAYLOAD), people["op"]).json()["value"] == SECRET_IN_A_RECORD
    with psycopg.connect(page.loads) as connection:
        seen = connection.execute("select distinct actor, why from penstock.events where what like 'contents%'")
        assert set(seen.fetchall()) == {("op", "partition 0, offset 0"), ("admin", "partition 0, offset 0")}


def test_a_user_sees_only_pipelines_whose_dag_the_user_may_read(page: AirflowSite) -> None:
    passwords = json.loads((page.web.folder / "passwords.json").read_text(encoding="utf-8"))
    guest = _log_in(page, GUEST, passwords[GUEST])
    listed = _ask(page, "api/pipelines", guest).json()["pipelines"]
    assert [each["name"] for each in listed] == [MAY_READ]
    routes = [route for route in _list_routes(page) if "{dag_id}" in route]
    assert {_ask(page, _fill(route), guest).status_code for route in routes} == {403}
    assert _ask(page, f"api/pipelines/{MAY_READ}", guest).status_code == 200


def test_the_page_knows_which_buttons_each_role_may_use(page: AirflowSite, people: dict[str, dict[str, str]]) -> None:
    found = {role: _ask(page, "api/pipelines/orders/rights", people[role]).json() for role in ROLES}
    everything = ["orders", *ACTIONS]
    assert {role: rights["may_start"] for role, rights in found.items()} == {
        "viewer": [], "user": everything, "op": everything, "admin": everything,
    }  # fmt: skip
    assert [role for role in ROLES if found[role]["may_see_contents"]] == ["op", "admin"]
    for role in ROLES:
        path = "dags/penstock_verify/dagRuns"
        reply = httpx.post(
            f"{page.web.url}/api/v2/{path}", json={"logical_date": None}, headers=people[role], timeout=60
        )
        assert (reply.status_code == 403) == (role == "viewer")
    dags = {each["dag_id"] for each in page.get("dags", limit=100)["dags"]}
    assert dags >= set(everything)


def test_a_pipeline_whose_dag_airflow_does_not_know_is_in_no_list(page: AirflowSite) -> None:
    """Airflow decides which DAGs a user may read, and the list holds no other pipelines."""
    (page.pipelines / "unread.yaml").write_text("name: unread\n")
    names = [each["name"] for each in _get(page, "api/pipelines").json()["pipelines"]]
    assert names == ["clicks", "orders"]


def test_the_sampler_runs_and_the_page_shows_its_errors(page: AirflowSite) -> None:
    page.api.patch("dags/penstock_sample", json={"is_paused": False}).raise_for_status()
    run, state = page.run("penstock_sample")
    page.api.patch("dags/penstock_sample", json={"is_paused": True}).raise_for_status()
    log = page.log("penstock_sample", run, "sample")
    assert state == "success", log
    assert any("orders was not sampled" in line for line in log)
    assert CANARY not in "\n".join(log)
    head = _get(page, "api/pipelines/orders").json()
    assert head["state"] == "unknown"
    assert "nothing" in head["cause"]


def _ask(page: AirflowSite, path: str, headers: dict[str, str]) -> httpx.Response:
    return httpx.get(f"{page.web.url}/penstock/{path}", headers=headers, timeout=60)


def _get(page: AirflowSite, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
    sent = {"Authorization": page.api.headers["Authorization"], **(headers or {})}
    return httpx.get(f"{page.web.url}/penstock/{path}", headers=sent, timeout=60)
