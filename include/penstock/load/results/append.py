"""Append: the rows of a load become visible in the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.target.registry import find_store

if TYPE_CHECKING:
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load


class Append:
    """Every row of every published load."""

    def publish(self, connection: Connection, load: Load) -> None:
        """Make the rows visible."""
        find_store(load.declaration).publish(connection, load)
