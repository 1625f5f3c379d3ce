"""The export of metrics from Airflow's tasks, by the settings of Airflow's own metrics."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from airflow.sdk.configuration import conf

from penstock.settings import Exporter, read_exporter

if TYPE_CHECKING:
    from collections.abc import Mapping


def export_metrics(uri: str) -> None:
    """Export the metrics of all pipelines, if a receiver is configured. Never raises."""
    from penstock.metrics.export import export_metrics as export

    exporter = find_exporter(os.environ)
    if exporter is not None:
        export(uri, exporter)


def find_exporter(environment: Mapping[str, str]) -> Exporter | None:
    """Find the receiver: the standard variables first, as Airflow does, then the options of its section metrics."""
    found = read_exporter(environment)
    if found is not None or not conf.getboolean("metrics", "otel_on", fallback=False):
        return found
    host, port = conf.get("metrics", "otel_host", fallback=None), conf.get("metrics", "otel_port", fallback=None)
    if not host or not port:
        return None
    scheme = "https" if conf.getboolean("metrics", "otel_ssl_active", fallback=False) else "http"
    return Exporter("http", f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/v1/metrics")
