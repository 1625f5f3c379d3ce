"""A real Kafka broker in KRaft mode from its jars, in a folder of its own, on the loopback address."""

from __future__ import annotations

import base64
import functools
import os
import re
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.errors import PenstockError, WrongUseError
from penstock_stack import jars, ports, processes

if TYPE_CHECKING:
    from collections.abc import Mapping

# The broker serves one machine: these options favour a quick start over peak speed.
JVM = ("-Xms256m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
LOGGING = ("-Dorg.apache.logging.log4j.level=INFO",)


class Broker(processes.RecordedProcess):
    """One node, which is broker and controller. With `voters` (node id to controller port) it belongs to a cluster."""

    name = "Kafka"
    option = "--kafka-port"

    def __init__(
        self,
        folder: Path,
        port: int,
        controller_port: int,
        *,
        node: int = 1,
        voters: Mapping[int, int] | None = None,
        cluster_id: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.port = port
        self.controller_port = controller_port
        self.node = node
        self.voters = dict(voters or {node: controller_port})
        self.cluster_id = cluster_id
        self.settings = dict(settings or {})
        self.log = self.folder / "kafka.log"

    def __repr__(self) -> str:
        return f"Broker({str(self.folder)!r}, {self.port})"

    @property
    def bootstrap(self) -> str:
        """The address to which clients connect."""
        return f"{ports.LOOPBACK}:{self.port}"

    def format(self) -> None:
        """Write the node's settings, and give its data folder the cluster's id, once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{name}={value}\n" for name, value in self._properties().items()]
        self._config.write_text("".join(lines), encoding="utf-8")
        done = self.folder / "formatted"
        if done.exists():
            return
        cluster_id = self.cluster_id or make_cluster_id()
        shutil.rmtree(self.folder / "data", ignore_errors=True)  # an interrupted format may have left files
        process = self._launch("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._config))
        processes.await_condition(lambda: not processes.is_alive(process), 60, "Kafka's data folder is formatted")
        if not (self.folder / "data" / "meta.properties").exists():
            raise PenstockError(f"formatting failed: {processes.last_words(self.log)}", next_step=f"see {self.log}.")
        done.write_text(cluster_id, encoding="utf-8")

    def start(self) -> None:
        """Start the node unless it runs, and wait until it answers."""
        self.spawn()
        self.await_ready()

    def spawn(self) -> None:
        """Start the node without waiting: in a cluster no node answers before a majority runs."""
        if self._is_alive():
            return
        require_java()
        self.format()
        ports.refuse_taken(self.port, self.name, self.option)
        ports.refuse_taken(self.controller_port, "Kafka's controller")
        processes.write_record(self._record, self._launch("kafka.Kafka", str(self._config)))

    def await_ready(self, timeout: float = 60.0) -> None:
        """Wait until the node serves clients."""
        process = processes.read_record(self._record)
        if process is None:
            raise PenstockError("Kafka was not started.", next_step="call spawn() first.")
        processes.await_start(process, self._answers, timeout, self.name, self.log)

    def restart(self) -> None:
        """Stop the node and start it on the same ports and data."""
        self.stop()
        self.start()

    def is_running(self) -> bool:
        """Whether the node runs and answers."""
        return self._is_alive() and self._answers()

    @property
    def _config(self) -> Path:
        return self.folder / "server.properties"

    def _launch(self, *program: str) -> processes.Process:
        classpath = os.pathsep.join(str(jar) for jar in jars.find_jars("broker"))
        argv = [find_java(), *JVM, *LOGGING, *program]
        # The environment passes the class path: in argv its 92 paths would hide all else in a list of processes.
        return processes.start(argv, log=self.log, folder=self.folder.parent, extra={"CLASSPATH": classpath})

    def _is_alive(self) -> bool:
        return bool(self.pids())

    def _answers(self) -> bool:
        if not ports.is_served(self.port):
            return False
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, "error_cb": lambda _: None})
        try:
            return self.node in admin.list_topics(timeout=5).brokers
        except KafkaException:
            return False

    def _properties(self) -> dict[str, str]:
        copies = str(min(3, len(self.voters)))
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.node),
            "controller.quorum.voters": ",".join(f"{n}@{ports.LOOPBACK}:{p}" for n, p in self.voters.items()),
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{ports.LOOPBACK}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "data"),
            # Without this setting a stack that was off for a week would delete its records.
            "log.retention.ms": "-1",
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # After a kill the node can register again only when its former session has expired.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            **self.settings,
        }


def make_cluster(folder: Path, size: int) -> list[Broker]:
    """Make the brokers of one cluster; to start them, call spawn() on all, then await_ready() on all."""
    chosen = ports.choose(2 * size)
    voters = {node: chosen[size + node - 1] for node in range(1, size + 1)}
    cluster_id = make_cluster_id()
    return [
        Broker(
            folder / f"kafka-{node}", chosen[node - 1], voters[node], node=node, voters=voters, cluster_id=cluster_id
        )
        for node in voters
    ]


def make_cluster_id() -> str:
    """A new id as Kafka writes them: 16 bytes in URL-safe base 64."""
    # The id never begins with a dash, which Kafka's tools would read as an option.
    encoded = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    return f"A{encoded[1:]}"


def find_java() -> str:
    """Find the program java: of JAVA_HOME, or else on the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise WrongUseError("Java is missing.", next_step="install Java 17 and put it on PATH, or set JAVA_HOME.")
    return found


@functools.cache
def require_java() -> None:
    """Refuse a Java that is too old for Kafka and Spark."""
    output = subprocess.run([find_java(), "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    version = re.search(r'version "(\d+)', output)
    if version is None or int(version[1]) < 17:
        raise WrongUseError(
            f"Java 17 is needed, and `java -version` says: {(output.strip() or 'nothing').splitlines()[0]}.",
            next_step="install Java 17 and put it on PATH, or set JAVA_HOME.",
        )
