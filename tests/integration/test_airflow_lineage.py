"""Lineage, links and metrics from a real Airflow, by its own settings, at real HTTP receivers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

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
def collector() -> Iterator[Endpoint]:
    with Endpoint() as started:
        yield started


@pytest.fixture(scope="module")
def airflow_settings(marquez: Endpoint, collector: Endpoint) -> dict[str, str]:
    host, port = collector.address.split(":")
    transport = {"type": "http", "url": f"http://{marquez.address}", "auth": {"type": "api_key", "apiKey": API_KEY}}
    return {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "factory",
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO": "True",
        "AIRFLOW__OPENLINEAGE__SPARK_INJECT_TRANSPORT_INFO": "True",
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "AIRFLOW__METRICS__OTEL_HOST": host,
        "AIRFLOW__METRICS__OTEL_PORT": port,
    }


def test_a_run_sends_lineage_links_its_load_and_exports_metrics_with_no_key_in_argv(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, marquez: Endpoint, collector: Endpoint
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    account.send_orders(30)
    columns = {"id": {"type": "bigint"}, "note": {"type": "text"}}
    declared = {"topic": account.topic, "schedule": None, "value": "json", "columns": columns}
    airflow.write_pipeline("traced", **declared, target="airflow.traced")

    run = airflow.trigger("traced")
    lines = airflow.wait(lambda: read_submits(airflow), 300, "the driver runs")
    assert airflow.await_end("traced", run) == "success"

    assert not [line for line in lines if API_KEY in line]
    # Airflow itself names a process that sends events "... - OpenLineage - on_success".
    assert not [line for line in lines if "spark_jobs/stage.py" in line and "openlineage" in line.lower()]
    events = [json.loads(request.body) for request in marquez.requests]
    own = [event for event in events if event["job"]["name"] == "penstock.traced"]
    assert [event["eventType"] for event in own] == ["START", "COMPLETE"]
    assert {event["job"]["namespace"] for event in own} == {"factory"}
    [task] = {event["run"]["runId"] for event in events if event["job"]["name"] == "traced.publish"}
    assert {event["run"]["facets"]["parent"]["run"]["runId"] for event in own} == {task}
    [offsets] = own[1]["run"]["facets"]["penstock_offsets"]["ranges"]
    assert (offsets["from"], offsets["until"], offsets["rows"]) == (0, 30, 30)

    for task in ("plan", "stage", "validate", "publish"):
        [load] = {event["run"]["facets"]["penstock_offsets"]["load"] for event in own[1:]}
        links = airflow.get(f"dags/traced/dagRuns/{run}/taskInstances/{task}/links")["extra_links"]
        assert links["Load"] == f"{airflow.web.url}/dags/traced/plugin/penstock-dag?load={load}"

    address = psycopg.conninfo.conninfo_to_dict(airflow.loads)
    [table] = airflow.events("traced", "postgres")
    [pipeline] = airflow.events("traced")
    assert table["uri"].endswith(f":{address['port']}/{address['dbname']}/airflow/traced")
    assert table["extra"] == pipeline["extra"]
    assert own[1]["outputs"][0]["name"] == f"{address['dbname']}.airflow.traced"
    assert API_KEY.encode() not in b"".join(request.body for request in marquez.requests)
    assert str(address["password"]).encode() not in b"".join(request.body for request in marquez.requests)

    run, state = airflow.run("penstock_rollback", load_id=load, why="a test")
    assert state == "success", airflow.log("penstock_rollback", run, "roll_back")
    events = [json.loads(request.body) for request in marquez.requests]
    moves = [event for event in events if event["job"]["name"] == "penstock.traced.rollback"]
    [task] = {event["run"]["runId"] for event in events if event["job"]["name"] == "penstock_rollback.roll_back"}
    assert [event["run"]["facets"]["parent"]["run"]["runId"] for event in moves] == [task] * 2

    airflow.api.patch("dags/penstock_sample", json={"is_paused": False}).raise_for_status()
    _, state = airflow.run("penstock_sample")
    airflow.api.patch("dags/penstock_sample", json={"is_paused": True}).raise_for_status()
    assert state == "success"
    exports = [ExportMetricsServiceRequest.FromString(request.body) for request in collector.requests]
    values = {
        metric.name: {point.attributes[0].value.string_value: point.as_double for point in metric.sum.data_points}
        for export in exports
        for resource in export.resource_metrics
        for scope in resource.scope_metrics
        if scope.scope.name == "penstock"
        for metric in scope.metrics
    }
    assert values["penstock.rows"] == {"traced": 30}


def read_submits(airflow: AirflowSite) -> list[str]:
    """The command lines of Airflow's processes, once one of them runs the driver of the stage step."""
    lines = airflow.command_lines()
    return lines if any("spark_jobs/stage.py" in line for line in lines) else []
