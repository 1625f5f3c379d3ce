"""The names of topics and tables in OpenLineage: all tools that follow its naming give a dataset the same name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.declaration.parts import Target
    from penstock.ledger.connection import Connection

KAFKA_PORT = 9092


@dataclass(frozen=True, slots=True)
class Place:
    """A dataset of OpenLineage: its namespace, and the parts of its name."""

    namespace: str
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name in events."""
        return ".".join(self.parts)

    @property
    def uri(self) -> str:
        """The URI of the asset of Airflow that stands for the dataset."""
        return "/".join((self.namespace, *self.parts))


def name_topic(kafka: Mapping[str, str], topic: str) -> Place:
    """Name a topic by the first bootstrap server. If the servers change their order, the topic changes its name."""
    server = kafka["bootstrap.servers"].split(",")[0].strip().rpartition("://")[2]
    has_port = ":" in server.rpartition("]")[2]  # the colons of an IPv6 address are in brackets
    return Place(f"kafka://{server}" if has_port else f"kafka://{server}:{KAFKA_PORT}", (topic,))


def name_table(connection: Connection, target: Target) -> Place:
    """Name a table by the server that this connection has reached. A Unix socket leads to a server on this host."""
    info = connection.info
    host = "localhost" if not info.host or info.host.startswith(("/", "@")) else info.host
    return Place(f"postgres://{host}:{info.port}", (info.dbname, target.schema_name, target.table_name))
