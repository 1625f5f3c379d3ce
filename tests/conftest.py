"""Shared fixtures: one real PostgreSQL and one real broker a session, a fresh database and fresh topics a test."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

# One file for each real service.
pytest_plugins = sorted(path.stem for path in Path(__file__).parent.glob("fix_*.py"))

# A test that uses one of these fixtures, directly or through another one, needs services: `make check` skips it.
SERVICES = {"postgres", "kafka", "cluster", "airflow", "spark"}


def pytest_configure() -> None:
    # SIGTERM must run the ends of the fixtures, because they stop the servers.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # An example that takes 45 ms on a quiet machine took more than Hypothesis's 200 ms on a busy one.
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SERVICES & set(getattr(item, "fixturenames", ())):
            item.add_marker("services")
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
