"""The sender at the end of commands: what is due is sent, if the environment names receivers."""

import os
from collections.abc import Callable, Mapping
from functools import wraps

from penstock.alerts.routes import find_routes
from penstock.settings import DB


def sending(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command send the notices that are due when it ends, whether it succeeds or not."""

    @wraps(command)
    def run_and_send(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except Exception:
            send(os.environ)
            raise
        send(os.environ)

    return run_and_send


def send(environment: Mapping[str, str]) -> None:
    """Send the notices that are due. Never raises: a receiver changes the outcome of no command."""
    from penstock.alerts.sender import send_due

    find_urls = find_routes(environment)
    if find_urls and environment.get(DB):
        send_due(environment[DB], find_urls)
