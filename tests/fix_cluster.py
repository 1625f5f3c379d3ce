"""A real cluster of three brokers for the session, each reached by clients through a proxy of its own."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from penstock_stack import ports
from penstock_stack.broker import Broker, make_cluster
from penstock_stack.processes import await_condition
from proxy import KafkaProxy, put_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Three brokers and their proxies, by node id."""

    brokers: dict[int, Broker]
    proxies: dict[int, KafkaProxy]

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers of clients that meet no faults of the network."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def faulty(self) -> str:
        """The bootstrap servers of clients that connect through the proxies, to all brokers."""
        return ",".join(proxy.address for proxy in self.proxies.values())

    def create_topic(self, replicas: Sequence[Sequence[int]], **config: str) -> str:
        """Create a topic whose partitions have these replicas, the preferred leader first."""
        topic = f"cluster_topic_{next(_numbers)}"
        named = {name.replace("_", "."): value for name, value in config.items()}
        wanted = NewTopic(topic, len(replicas), replica_assignment=[list(nodes) for nodes in replicas], config=named)
        admin = self._admin()  # must exist until the answer arrives
        admin.create_topics([wanted])[topic].result(timeout=120)
        for partition, nodes in enumerate(replicas):
            self.await_in_sync(topic, nodes, partition)
        return topic

    def find_leader(self, topic: str, partition: int = 0) -> int:
        """The node that leads a partition; -1 if none does."""
        return int(self._look(topic, partition).leader)

    def await_leader(self, topic: str, nodes: Iterable[int], partition: int = 0) -> int:
        """Wait until one of these nodes leads a partition."""
        wanted = set(nodes)
        self._await(lambda: self.find_leader(topic, partition) in wanted, f"{topic} is led by one of {wanted}")
        return self.find_leader(topic, partition)

    def await_in_sync(self, topic: str, nodes: Iterable[int], partition: int = 0) -> None:
        """Wait until exactly these nodes are in sync, and one of them leads."""

        def in_sync() -> bool:
            found = self._look(topic, partition)
            return set(found.isrs) == wanted and found.leader in wanted

        wanted = set(nodes)
        self._await(in_sync, f"{wanted} are in sync for {topic}")

    def start(self) -> None:
        """Start every broker that does not run, end every fault, and wait until all serve."""
        for proxy in self.proxies.values():
            proxy.heal()
        for broker in self.brokers.values():
            broker.spawn()
        for broker in self.brokers.values():
            broker.await_ready()

    def _look(self, topic: str, partition: int) -> Any:
        # A new client each time, because a client caches the leader for a while.
        found = self._admin().list_topics(topic, timeout=60).topics[topic]
        return found.partitions[partition]

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            try:
                return condition()
            except (KafkaException, KeyError):
                return False

        await_condition(holds, 60, what)

    def _admin(self) -> AdminClient:
        running = [broker.bootstrap for broker in self.brokers.values() if broker.pids()]
        return AdminClient({"bootstrap.servers": ",".join(running), "log_level": 0, "error_cb": lambda _: None})


@pytest.fixture(scope="session")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    brokers = {broker.node: broker for broker in make_cluster(tmp_path_factory.mktemp("cluster"), 3)}
    with ExitStack() as stack:
        proxies = {
            node: stack.enter_context(KafkaProxy(ports.LOOPBACK, port))
            for node, port in zip(brokers, ports.choose(3), strict=True)
        }
        for node, broker in brokers.items():
            put_behind(broker, proxies[node])
            stack.callback(broker.kill)
        cluster = Cluster(brokers, proxies)
        cluster.start()
        yield cluster


@pytest.fixture
def cluster(_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with all brokers running; it is repaired after each test."""
    _cluster.start()
    yield _cluster
    for proxy in _cluster.proxies.values():
        proxy.heal()
