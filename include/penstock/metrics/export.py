"""One export of all metrics to OpenTelemetry. It changes no outcome, and an error is one line in the log."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg

from penstock.errors import PenstockError
from penstock.ledger.connection import explain, open_ledger
from penstock.ledger.total import read_durations, read_values

if TYPE_CHECKING:
    from penstock.settings import Exporter

log = logging.getLogger(__name__)

PACKAGES = {
    "http": "pip install 'penstock[metrics]'",
    "grpc": "pip install 'penstock[metrics]' opentelemetry-exporter-otlp-proto-grpc",
}


def export_metrics(uri: str, exporter: Exporter) -> bool:
    """Export the metrics of all pipelines; whether the receiver took them. Never raises, and ends in bounded time."""
    try:
        with open_ledger(uri) as connection:
            values, durations = read_values(connection), read_durations(connection)
    except PenstockError as error:
        return _warn(error.what)
    except psycopg.Error as error:
        return _warn(explain(error).what)
    try:
        from penstock.metrics.points import make_data

        client = _make_client(exporter)
        data = make_data(values, durations, datetime.now(UTC))
    except ModuleNotFoundError as error:
        return _warn(f"the package {error.name} is missing. Next: `{PACKAGES[exporter.protocol]}`")
    try:
        # The client retries for the time limit of OTEL_EXPORTER_OTLP_TIMEOUT, by default 10 s, and logs the reason.
        taken = client.export(data).name == "SUCCESS"
    except Exception as error:  # a client raises anything, and none of it may stop a step
        return _warn(type(error).__name__)
    finally:
        client.shutdown()
    return taken or _warn("the receiver did not take them; the exporter's own message says why")


def _make_client(exporter: Exporter) -> Any:  # noqa: ANN401 - the two clients have no common class
    if exporter.protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    else:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    return OTLPMetricExporter(endpoint=exporter.endpoint)


def _warn(why: str) -> bool:
    log.warning("no metrics were exported: %s.", why.rstrip("."))
    return False
