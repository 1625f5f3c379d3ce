"""The commands of Kafka that correct a finding."""

from __future__ import annotations

import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands for one topic."""

    bootstrap: str
    topic: str

    def set_topic(self, name: str, value: object) -> str:
        """Set a setting of the topic."""
        return self._write(
            "kafka-configs.sh", f"--alter --entity-type topics --entity-name {self.topic} --add-config {name}={value}"
        )

    def describe_lagging(self) -> str:
        """Show the partitions whose replicas are not all in sync."""
        return self._write("kafka-topics.sh", f"--describe --under-replicated-partitions --topic {self.topic}")

    def move_replicas(self) -> str:
        """Give every partition the replicas that a file names."""
        return self._write("kafka-reassign-partitions.sh", "--execute --reassignment-json-file replicas.json")

    def show_sizes(self) -> str:
        """Show the size of every partition."""
        return self._write("kafka-log-dirs.sh", f"--describe --topic-list {self.topic}")

    def abort_transaction(self, partition: int, first_offset: int) -> str:
        """Abort the open transaction that begins at an offset."""
        return self._write(
            "kafka-transactions.sh", f"abort --topic {self.topic} --partition {partition} --start-offset {first_offset}"
        )

    def _write(self, program: str, arguments: str) -> str:
        return f"{program} --bootstrap-server {shlex.quote(self.bootstrap)} {arguments}"
