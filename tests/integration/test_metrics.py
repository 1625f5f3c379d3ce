"""The metrics: totals that publishes count, and their export to a real receiver of OTLP."""

from __future__ import annotations

import logging
import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from typer.testing import CliRunner

from declaring import declare
from fix_loads import Bind, stage_rows
from loading_process import query
from penstock.airflow.metrics import find_exporter
from penstock.cli.main import app
from penstock.decide.rollback import roll_back, undo_rollback
from penstock.ledger.connection import open_ledger
from penstock.ledger.incident import see_incident
from penstock.ledger.load import pass_checks, read_load
from penstock.load.plan import plan_load
from penstock.load.publish import publish_load
from penstock.metrics.export import export_metrics
from penstock.metrics.instruments import INSTRUMENTS
from penstock.model.incident import LIVE, IncidentKind, Sighting
from penstock.model.ranges import Range
from penstock.settings import Exporter, read_exporter
from penstock.status.sampler import sample_pipelines
from privileges import superuser
from producing import Account, order
from receiving import Endpoint, GrpcCollector, refused_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker

CANARY = "canary-0816-must-be-nowhere"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


@pytest.fixture
def collector() -> Iterator[Endpoint]:
    with Endpoint() as started:
        yield started


def publish(db: str, bound: Bind, start: int, until: int, name: str = "orders", **more: Any) -> int:
    """Publish a load of partition 0."""
    load_id = stage_rows(db, [Range(0, start, until)], pipeline=declare("topic", name=name), **more)
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
    publish_load(db, bound(db), load_id)
    return load_id


def read_metrics(collector: Endpoint) -> dict[str, dict[tuple[str, ...], Any]]:
    """The points of the newest export, by the name of the metric and the values of the attributes."""
    request = ExportMetricsServiceRequest.FromString(collector.requests[-1].body)
    [resource] = request.resource_metrics
    [scope] = resource.scope_metrics
    found: dict[str, dict[tuple[str, ...], Any]] = {}
    for metric in scope.metrics:
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            place = tuple(each.value.string_value for each in point.attributes)
            found.setdefault(f"{metric.name} {kind}", {})[place] = point
    return found


def test_the_totals_of_publishes_reach_a_receiver_of_otlp(db: str, bound: Bind, collector: Endpoint) -> None:
    publish(db, bound, 0, 100, holes=[(0, 3)], quarantined=[(0, 4), (0, 5)])
    publish(db, bound, 100, 150)
    publish(db, bound, 0, 7, name="payments")

    assert export_metrics(db, Exporter("http", f"http://{collector.address}/v1/metrics"))

    assert [request.path for request in collector.requests] == ["/v1/metrics"]
    found = read_metrics(collector)
    counted = {name: {place[0]: point.as_double for place, point in points.items()}
               for name, points in found.items() if name.endswith(" sum")}  # fmt: skip
    assert counted == {
        "penstock.loads sum": {"orders": 2, "payments": 1},
        "penstock.rows sum": {"orders": 147, "payments": 7},
        "penstock.quarantined sum": {"orders": 2, "payments": 0},
        "penstock.filtered sum": {"orders": 0, "payments": 0},
        "penstock.holes sum": {"orders": 1, "payments": 0},
    }
    durations = found["penstock.phase.duration histogram"]
    assert {place: (point.count, sum(point.bucket_counts)) for place, point in durations.items()} == {
        (name, phase): (loads, loads)
        for name, loads in (("orders", 2), ("payments", 1))
        for phase in ("stage", "validate", "publish")
    }
    for point in durations.values():
        assert point.explicit_bounds == [1, 5, 15, 60, 300, 900, 3600]
        assert point.sum >= 0
        assert not point.HasField("min")


def test_the_counters_begin_at_the_first_load_and_never_fall(db: str, bound: Bind, collector: Endpoint) -> None:
    exporter = Exporter("http", f"http://{collector.address}/v1/metrics")
    load_id = publish(db, bound, 0, 10)
    export_metrics(db, exporter)
    first = read_metrics(collector)["penstock.rows sum"]["orders",]
    roll_back(db, load_id, "ann", "a test")
    export_metrics(db, exporter)
    rolled_back = read_metrics(collector)["penstock.rows sum"]["orders",]
    undo_rollback(db, load_id, "ann", "a test")
    publish(db, bound, 10, 15)
    export_metrics(db, exporter)
    last = read_metrics(collector)["penstock.rows sum"]["orders",]

    assert [each.as_double for each in (first, rolled_back, last)] == [10, 10, 15]
    assert first.start_time_unix_nano == last.start_time_unix_nano > 0
    assert first.time_unix_nano < last.time_unix_nano


def test_a_duration_is_counted_in_its_bucket_and_a_wait_for_a_person_in_none(db: str, bound: Bind) -> None:
    load_id = stage_rows(db, [Range(0, 0, 10)], pipeline=declare("topic"))
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
    with open_ledger(superuser(db)) as connection:
        connection.execute(
            "update penstock.load set staging_at = now() - interval '86500 s', staged_at = now() - interval '1 day',"
            " held_at = now() - interval '1 day' + interval '3 s', validated_at = now() - interval '20 s'"
        )
    publish_load(db, bound(db), load_id)

    buckets = dict(query(db, "select phase, buckets from penstock.phase_total"))
    assert buckets == {
        "stage": [0, 0, 0, 0, 1, 0, 0, 0],
        "validate": [0, 1, 0, 0, 0, 0, 0, 0],
        "publish": [0, 0, 0, 1, 0, 0, 0, 0],
    }
    cumulative = query(
        db,
        "select bound, value from penstock.metrics where name = 'penstock.phase.duration.bucket' and phase = 'stage'"
        " order by bound",
    )
    assert cumulative == [(1, 0), (5, 0), (15, 0), (60, 0), (300, 1), (900, 1), (3600, 1), (None, 1)]


def test_open_incidents_are_a_gauge_of_each_pipeline(db: str, bound: Bind, collector: Endpoint) -> None:
    publish(db, bound, 0, 10)
    publish(db, bound, 0, 10, name="payments")
    with open_ledger(db) as connection:
        see_incident(connection, Sighting("orders", IncidentKind.OVERDUE_LOAD, LIVE, "late", "run it"), ())

    export_metrics(db, Exporter("http", f"http://{collector.address}/v1/metrics"))

    points = read_metrics(collector)["penstock.incidents gauge"]
    assert {place: point.as_double for place, point in points.items()} == {("orders",): 1, ("payments",): 0}


def test_the_gauges_of_the_log_come_from_its_newest_sample(
    db: str, kafka: Broker, make_topic: MakeTopic, collector: Endpoint
) -> None:
    exporter = Exporter("http", f"http://{collector.address}/v1/metrics")
    account = Account(kafka.bootstrap, make_topic(2, retention_ms="3600000"))
    pipeline, settings = declare(account.topic), {"bootstrap.servers": kafka.bootstrap}
    plan_load(db, settings, pipeline, "a run")
    account.send([order(1), order(2)], partition=0, timestamp=int(time.time() * 1000) - 600_000)
    account.send([order(3)], partition=1)
    open_producer = account.begin("open")
    account.leave_open(open_producer, [order(4)], partition=1)

    sample_pipelines(db, lambda _: settings, [pipeline])
    export_metrics(db, exporter)
    found = read_gauges(collector)

    assert found["penstock.lag.records"] == 3
    assert 600 <= found["penstock.lag.seconds"] < 900
    assert 2700 < found["penstock.headroom.seconds"] <= 3000
    assert 0 < found["penstock.transaction.open.seconds"] < 300
    assert (found["penstock.quarantine.records"], found["penstock.gaps.offsets"]) == (0, 0)
    assert 0 < found["penstock.sample.age.seconds"] < 300

    with open_ledger(superuser(db)) as connection:  # a load has moved the positions since the sample
        connection.execute("update penstock.position set position = 2")
    export_metrics(db, exporter)
    found = read_gauges(collector)
    assert (found["penstock.lag.records"], found["penstock.lag.seconds"]) == (0, 0)
    assert "penstock.headroom.seconds" not in found

    with open_ledger(superuser(db)) as connection:
        connection.execute("update penstock.sample set answered_at = answered_at - interval '11 minutes'")
    export_metrics(db, exporter)
    found = read_gauges(collector)
    assert found.keys() == {"penstock.incidents", "penstock.sample.age.seconds"}
    assert found["penstock.sample.age.seconds"] > 660
    open_producer.abort_transaction(120)


def read_gauges(collector: Endpoint) -> dict[str, float]:
    """The gauges of the newest export, for a single pipeline."""
    found = read_metrics(collector)
    return {
        name.removesuffix(" gauge"): points["orders",].as_double for name, points in found.items() if " gauge" in name
    }


def test_a_receiver_of_grpc_gets_every_metric_of_the_view(
    db: str, bound: Bind, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(db, bound, 0, 10)
    with GrpcCollector() as grpc_collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{grpc_collector.address}")
        assert export_metrics(db, Exporter("grpc"))
    [request] = grpc_collector.requests
    [resource] = request.resource_metrics
    [scope] = resource.scope_metrics
    in_view = query(db, "select distinct regexp_replace(name, '\\.(bucket|sum|count)$', '') from penstock.metrics")
    assert {metric.name for metric in scope.metrics} == {name for (name,) in in_view}
    [rows] = [metric for metric in scope.metrics if metric.name == "penstock.rows"]
    assert [point.as_double for point in rows.sum.data_points] == [10]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_receiver_of_metrics_that_never_answers_is_given_up(
    protocol: Literal["http", "grpc"], db: str, bound: Bind, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(db, bound, 0, 10)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts connections, and never answers
        path = "/v1/metrics" if protocol == "http" else ""
        assert not export_metrics(db, Exporter(protocol, f"http://127.0.0.1:{silent.getsockname()[1]}{path}"))


@pytest.mark.parametrize("fault", ["refused", "error"])
def test_a_receiver_of_metrics_that_fails_costs_a_line_in_the_log(
    fault: str, db: str, collector: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization={CANARY}")
    address = f"127.0.0.1:{refused_port()}" if fault == "refused" else collector.address
    collector.status = 400

    with caplog.at_level(logging.WARNING):
        assert not export_metrics(db, Exporter("http", f"http://{address}/v1/metrics"))

    lines = [each.getMessage() for each in caplog.records if each.name.startswith("penstock")]
    assert lines == ["no metrics were exported: the receiver did not take them; the exporter's own message says why."]
    assert CANARY not in caplog.text


def test_the_command_line_exports_by_the_standard_variables(
    db: str, bound: Bind, kafka: Broker, tmp_path: Path, collector: Endpoint
) -> None:
    load_id = publish(db, bound, 0, 10)
    environment = {
        "PENSTOCK_DB": db,
        "PENSTOCK_KAFKA": kafka.bootstrap,
        "PENSTOCK_PIPELINES": str(tmp_path),
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}",
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {CANARY}",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
    }

    assert CliRunner().invoke(app, ["watch"], env=environment).exit_code == 0
    rolled_back = CliRunner().invoke(app, ["rollback", str(load_id), "--why", "a test"], env=environment)
    assert rolled_back.exit_code == 0, rolled_back.output

    assert [request.path for request in collector.requests] == ["/v1/metrics"] * 2
    for request in collector.requests:
        assert request.headers["authorization"] == f"Bearer {CANARY}"
        assert CANARY.encode() not in request.body
        [resource] = ExportMetricsServiceRequest.FromString(request.body).resource_metrics
        named = {each.key: each.value.string_value for each in resource.resource.attributes}
        assert (named["service.name"], named["deployment.environment"]) == ("penstock", "test")
    assert CANARY not in rolled_back.output


def test_the_page_of_the_metrics_lists_every_instrument_of_the_view(db: str, bound: Bind) -> None:
    publish(db, bound, 0, 10)
    with open_ledger(superuser(db)) as connection:
        connection.execute(
            "insert into penstock.sample (pipeline, taken_at, answered_at, retention) values"
            """ ('orders', now(), now(), '{"cleanup.policy": "delete", "retention.ms": "1000"}')"""
        )
        connection.execute("insert into penstock.partition_sample values ('orders', 0, 0, 20, 20, 20, 10, now())")

    listed = re.findall(r"^\| `(penstock\.[\w.]+)` \| (\w+) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert listed == [(each.name, each.kind, each.unit, each.meaning) for each in INSTRUMENTS]
    in_view = query(
        db, "select distinct regexp_replace(name, '\\.(bucket|sum|count)$', ''), kind from penstock.metrics"
    )
    assert set(in_view) == {(each.name, each.kind) for each in INSTRUMENTS}


@pytest.mark.parametrize(
    ("variables", "exporter"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4318"}, Exporter()),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://otel:4318/v1/metrics"}, Exporter()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, Exporter("grpc")),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4318", "OTEL_METRICS_EXPORTER": "none"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4318", "OTEL_SDK_DISABLED": "true"}, None),
    ],
)
def test_metrics_are_exported_only_if_a_variable_names_a_receiver(
    variables: dict[str, str], exporter: Exporter | None
) -> None:
    assert read_exporter(variables) == exporter


def test_airflows_own_settings_of_metrics_name_the_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_exporter({}) is None
    for name, value in {"ON": "True", "HOST": "::1", "PORT": "4318", "SSL_ACTIVE": "True"}.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__OTEL_{name}", value)
    assert find_exporter({}) == Exporter("http", "https://[::1]:4318/v1/metrics")
    assert find_exporter({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4318"}) == Exporter()
