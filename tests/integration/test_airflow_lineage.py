"""Lineage and metrics from a real Airflow, by its own settings, at real HTTP receivers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest

from producing import Account
from receiving import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fix_airflow import AirflowSite
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker

pytestmark = pytest.mark.timeout(1200)
API_KEY = "canary-0815-the-key-of-the-receiver"


@pytest.fixture(scope="module")
def marquez() -> Iterator[Endpoint]:
    with Endpoint() as started:
        yield started


@pytest.fixture(scope="module")
def airflow_settings(marquez: Endpoint) -> dict[str, str]:
    transport = {"type": "http", "url": f"http://{marquez.address}", "auth": {"type": "api_key", "apiKey": API_KEY}}
    return {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "factory",
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_TRANSPORT_INFO": "True",
    }


def test_a_run_sends_lineage_below_its_publish_task_and_keeps_the_key_out_of_argv(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, marquez: Endpoint
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    account.send_orders(30)
    columns = {"id": {"type": "bigint"}, "note": {"type": "text"}}
    declared = {"topic": account.topic, "schedule": None, "value": "json", "columns": columns}
    airflow.write_pipeline("traced", **declared, target="airflow.traced")

    run = airflow.trigger("traced")
    lines = airflow.wait(lambda: read_submits(airflow), 300, "the driver runs")
    assert airflow.await_end("traced", run) == "success"

    assert not [line for line in lines if API_KEY in line or "openlineage" in line.lower()]
    events = [json.loads(request.body) for request in marquez.requests]
    own = [event for event in events if event["job"]["name"] == "penstock.traced"]
    assert [event["eventType"] for event in own] == ["START", "COMPLETE"]
    assert {event["job"]["namespace"] for event in own} == {"factory"}
    [task] = {event["run"]["runId"] for event in events if event["job"]["name"] == "traced.publish"}
    assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in own} == {task}
    [offsets] = own[1]["run"]["facets"]["penstock_offsets"]["ranges"]
    assert (offsets["from"], offsets["until"], offsets["rows"]) == (0, 30, 30)

    address = psycopg.conninfo.conninfo_to_dict(airflow.loads)
    [table] = airflow.events("traced", "postgres")
    [pipeline] = airflow.events("traced")
    assert table["uri"].endswith(f":{address['port']}/{address['dbname']}/airflow/traced")
    assert table["extra"] == pipeline["extra"]
    assert own[1]["outputs"][0]["name"] == f"{address['dbname']}.airflow.traced"
    assert API_KEY.encode() not in b"".join(request.body for request in marquez.requests)
    assert str(address["password"]).encode() not in b"".join(request.body for request in marquez.requests)


def read_submits(airflow: AirflowSite) -> list[str]:
    """The command lines of Airflow's processes, once one of them runs the driver of the stage step."""
    lines = airflow.command_lines()
    return lines if any("spark_jobs/stage.py" in line for line in lines) else []
