"""What scenarios share: loaders of pipelines in the session's Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from declaring import declare
from loading_here import Loader, MakeLoader
from penstock.settings import Settings
from penstock.stack.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def make_loader(db: str, kafka: Broker, spark: SparkSession) -> MakeLoader:
    """A factory of loaders into the test's database."""

    def make(topic: str, bootstrap: str | None = None, **changes: Any) -> Loader:
        settings = Settings(db, {"bootstrap.servers": bootstrap or kafka.bootstrap}, Path(os.devnull), "local[2]")
        return Loader(settings, declare(topic, **changes), spark)

    return make
