"""The end of commands: notices that are due are sent, and metrics exported, if the environment names receivers."""

import os
from collections.abc import Callable, Mapping
from functools import wraps

from penstock.alerts.routes import find_routes
from penstock.settings import DB, read_exporter


def sending(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command send notices and export metrics when it ends, whether it succeeds or not."""

    @wraps(command)
    def run_and_send(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except Exception:
            _end()
            raise
        _end()

    return run_and_send


def _end() -> None:
    send(os.environ)
    export(os.environ)


def send(environment: Mapping[str, str]) -> None:
    """Send the notices that are due. Never raises: a receiver changes the outcome of no command."""
    from penstock.alerts.sender import send_due

    find_urls = find_routes(environment)
    if find_urls and environment.get(DB):
        send_due(environment[DB], find_urls)


def export(environment: Mapping[str, str]) -> None:
    """Export the metrics. Never raises: a receiver changes the outcome of no command."""
    exporter = read_exporter(environment)
    if exporter is not None and environment.get(DB):
        from penstock.metrics.export import export_metrics

        export_metrics(environment[DB], exporter)
