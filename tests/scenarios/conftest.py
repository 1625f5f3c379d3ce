"""What scenarios share: loaders of pipelines in the session's Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from declaring import declare
from penstock.stack.broker import Broker
from whole_loads import Loader, MakeLoader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def make_loader(db: str, kafka: Broker, spark: SparkSession) -> MakeLoader:
    """A factory of loaders into the test's database."""

    def make(topic: str, bootstrap: str | None = None, **changes: Any) -> Loader:
        return Loader(db, bootstrap or kafka.bootstrap, spark, declare(topic, **changes))

    return make
