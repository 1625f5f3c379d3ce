"""Shared fixtures: one real PostgreSQL and one real broker a session, a fresh database and fresh topics a test."""

from __future__ import annotations

import signal
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[1]

# One file for each real service.
pytest_plugins = sorted(path.stem for path in Path(__file__).parent.glob("fix_*.py"))

# A test that uses one of these fixtures, directly or through another one, needs services: `make check` skips it.
SERVICES = {"postgres", "kafka", "cluster", "airflow", "spark"}
# A module with a fixture of this name has an Airflow of its own.
OWN = "airflow_settings"


# Without Rust the tests of the record path in Rust are left out, as that path is.
RUST = ("unit/test_rust_records.py", "integration/test_record_paths.py", "acceptance/test_rust_on_executors.py")
collect_ignore = [] if find_spec("penstock_native") else list(RUST)


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


class LoadFiles(LoadFileScheduling):  # type: ignore[misc]
    """A process runs whole files. All files that share an Airflow run in one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return "airflow" if _shares_airflow(file) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFiles | None:
    """Share out the files as `--dist loadfile` does, except that one Airflow serves several of them."""
    return LoadFiles(config, log) if config.getoption("dist") == "loadfile" else None


@cache
def _shares_airflow(file: str) -> bool:
    text = (ROOT / file).read_text(encoding="utf-8")
    return "airflow: AirflowSite" in text and f"def {OWN}" not in text
