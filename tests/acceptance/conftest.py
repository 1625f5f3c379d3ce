"""Shared fixtures: the settings of a load, and the end of every load that a failed test left running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loading_process import LoadingProcess
from penstock_stack.broker import Broker


@pytest.fixture
def environment(db: str, kafka: Broker, tmp_path: Path) -> dict[str, str]:
    """The settings of `penstock run`, for declarations in the test's own folder."""
    return {"PENSTOCK_DB": db, "PENSTOCK_KAFKA": kafka.bootstrap, "PENSTOCK_PIPELINES": str(tmp_path)}


@pytest.fixture(autouse=True)
def _no_load_outlives_its_test() -> Iterator[None]:
    yield
    while LoadingProcess.started:
        LoadingProcess.started.pop().kill()
