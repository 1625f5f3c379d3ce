"""Routes of alerts in a declaration: both forms are read and kept, and each mistake is named at its place."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from declaring import declare, describe
from penstock.declaration.pipeline import Pipeline


def test_one_connection_gets_everything_and_a_daily_reminder() -> None:
    (route,) = declare("topic", alerts="oncall").alerts
    assert (route.to, route.severity, route.remind_after) == ("oncall", None, timedelta(days=1))
    assert declare("topic", alerts=None).alerts == declare("topic").alerts == ()


def test_a_list_of_routes_is_read_and_kept() -> None:
    routes = [
        {"to": "oncall", "severity": "error", "remind": "90m"},
        {"to": "mails", "severity": "warning", "remind": None},
    ]
    pipeline = declare("topic", alerts=routes)
    assert [route.remind_after for route in pipeline.alerts] == [timedelta(minutes=90), None]
    assert Pipeline.read_kept(pipeline.model_dump_json()) == pipeline
    assert declare("topic", alerts=list(pipeline.alerts)) == pipeline


def test_a_declaration_that_an_older_ledger_keeps_is_read() -> None:
    kept = declare("topic").model_dump(mode="json")
    assert Pipeline.read_kept({**kept, "alerts": "oncall"}).alerts == declare("topic", alerts="oncall").alerts
    assert Pipeline.read_kept({**kept, "alerts": None}).alerts == ()


@pytest.mark.parametrize(
    ("alerts", "place", "what"),
    [
        ([{"severity": "error"}], ("alerts", 0, "to"), "is missing"),
        ([{"to": "a", "severity": "info"}], ("alerts", 0, "severity"), "invalid value 'info'; allowed: error, warning"),
        ([{"to": "a", "remind": "daily"}], ("alerts", 0, "remind"), "not a valid duration"),
        ([{"to": "a", "remnd": "1h"}], ("alerts", 0, "remnd"), "unknown name (did you mean remind?)"),
        (["a"], ("alerts",), "is not a list of mappings"),
        ([{"to": "json://host"}], ("alerts", 0, "to"), "not a valid id of an Airflow connection"),
        ([{"to": "a"}, {"to": "a", "severity": "error"}], ("alerts",), "a would get the same notice twice"),
    ],
)
def test_a_mistake_in_a_route_is_named_at_its_place(alerts: Any, place: tuple[Any, ...], what: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Pipeline.model_validate(describe("topic", alerts=alerts))
    (error,) = refused.value.errors()
    assert error["loc"] == place
    assert error["msg"].startswith(what)
