"""Loaders of pipelines in the session's Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

from declaring import declare
from producing import Account
from whole_loads import Loader, MakeLoader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker


class Start(Protocol):
    """Makes a topic, an account of the records sent to it, and a loader of it; the arguments go to the declaration."""

    def __call__(self, partitions: int = 1, **declared: Any) -> tuple[Account, Loader]: ...


@pytest.fixture
def make_loader(db: str, kafka: Broker, spark: SparkSession) -> MakeLoader:
    """A factory of loaders into the test's database."""

    def make(topic: str, bootstrap: str | None = None, **changes: Any) -> Loader:
        return Loader(db, bootstrap or kafka.bootstrap, spark, declare(topic, **changes))

    return make


@pytest.fixture
def start(kafka: Broker, make_topic: MakeTopic, make_loader: MakeLoader) -> Start:
    """An account of a new topic, and a loader of it."""

    def make(partitions: int = 1, **declared: Any) -> tuple[Account, Loader]:
        account = Account(kafka.bootstrap, make_topic(partitions))
        return account, make_loader(account.topic, **declared)

    return make
