"""The superuser of the session's server, for actions of tests that no role of Penstock may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

if TYPE_CHECKING:
    from penstock_stack.postgres import Postgres

_servers: dict[str, Postgres] = {}


def remember(server: Postgres) -> None:
    """Remember a server by its port."""
    _servers[str(server.port)] = server


def superuser(db: str) -> str:
    """The superuser's URI of the same database; a URI of another server is returned unchanged."""
    found = conninfo_to_dict(db)
    server = _servers.get(str(found["port"]))
    return server.uri(str(found["dbname"])) if server else db
