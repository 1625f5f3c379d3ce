"""A real broker for the session, and topics of their own for every test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from penstock_stack import ports
from penstock_stack.broker import Broker
from penstock_stack.processes import await_condition
from proxy import KafkaProxy, put_behind

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count(1)


class MakeTopic(Protocol):
    """Creates a topic with a new name; settings are written with underscores: cleanup_policy="compact"."""

    def __call__(self, partitions: int = 1, **config: str) -> str: ...


@pytest.fixture(scope="session")
def _ports() -> list[int]:
    """The ports of the broker, of its controller, and of its listener behind the proxy."""
    return ports.choose(3)


@pytest.fixture(scope="session")
def _kafka_proxy(_ports: list[int]) -> Iterator[KafkaProxy]:
    with KafkaProxy(ports.LOOPBACK, _ports[2]) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory, _ports: list[int], _kafka_proxy: KafkaProxy) -> Iterator[Broker]:
    """A broker that the whole session shares; a test that stops or kills it starts it again."""
    broker = Broker(tmp_path_factory.mktemp("stack") / "kafka", *_ports[:2])
    put_behind(broker, _kafka_proxy)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def faulty_network(kafka: Broker, _kafka_proxy: KafkaProxy) -> Iterator[KafkaProxy]:
    """A proxy to the session's broker for clients that meet faults: its address is their bootstrap server."""
    yield _kafka_proxy
    _kafka_proxy.heal()


@pytest.fixture
def make_topic(kafka: Broker) -> MakeTopic:
    """A factory of fresh topics; each has a leader for every partition when its name is returned."""

    def make(partitions: int = 1, **config: str) -> str:
        topic = f"topic_{next(_numbers)}"
        create_topic(kafka.bootstrap, topic, partitions, {key.replace("_", "."): to for key, to in config.items()})
        return topic

    return make


def create_topic(bootstrap: str, topic: str, partitions: int, config: dict[str, str] | None = None) -> None:
    """Create a topic and wait until it can be written and read."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})
    admin.create_topics([wanted])[topic].result(timeout=120)
    await_partitions(admin, topic, partitions)


def add_partitions(bootstrap: str, topic: str, partitions: int) -> None:
    """Raise the number of partitions of a topic, and wait until they can be written and read."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(120)
    await_partitions(admin, topic, partitions)


def await_partitions(admin: AdminClient, topic: str, partitions: int) -> None:
    """Wait until every partition of a topic has a leader."""

    def led() -> bool:
        known = admin.list_topics(topic, timeout=60).topics[topic].partitions
        return len(known) == partitions and all(partition.leader >= 0 for partition in known.values())

    await_condition(led, 120, f"topic {topic} has {partitions} partitions with a leader")
