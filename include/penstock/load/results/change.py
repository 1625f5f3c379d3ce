"""The change of a target's rows in one transaction: the rows that it makes visible, and the rows that it takes away."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from psycopg import sql

from penstock.target.postgres.table import target_identifier

if TYPE_CHECKING:
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

REMOVED = sql.Identifier("penstock_removed")


@dataclass(frozen=True, slots=True)
class Change:
    """The effect of one transaction on the rows of a target.

    `added` are the first and the last load whose rows become visible. `removed` is a table with the rows that were
    visible before. Either is None if there are no such rows. The rows of the target itself are those after the change.
    """

    target: sql.Identifier
    added: tuple[int, int] | None
    removed: sql.Identifier | None = None
    unread: tuple[int, int] | None = None  # loads whose rows are left out: after the first, up to the last

    @classmethod
    def adds(cls, load: Load, removed: sql.Identifier | None = None) -> Self:
        """The rows of a load become visible, in place of the removed ones."""
        return cls(target_identifier(load.declaration.target), (load.load_id, load.load_id), removed)

    @classmethod
    def removes(cls, load: Load, removed: sql.Identifier) -> Self:
        """Rows are taken away."""
        return cls(target_identifier(load.declaration.target), None, removed)

    def without(self, after: int, until: int) -> Self:
        """The same change without the rows of some loads."""
        return replace(self, unread=(after, until))

    def select_added(self) -> sql.Composed:
        """The condition on `_load_id` of the rows that become visible; false without them."""
        if self.added is None:
            return sql.SQL("false").format()
        first, last = map(sql.Literal, self.added)
        return sql.SQL("_load_id between {} and {} and {}").format(first, last, self._select_read())

    def select_removed(self) -> sql.Composed:
        """The condition on `_load_id` of the rows that are taken away; false without them."""
        return sql.SQL("false").format() if self.removed is None else self._select_read()

    def _select_read(self) -> sql.Composed:
        if self.unread is None:
            return sql.SQL("true").format()
        after, until = map(sql.Literal, self.unread)
        return sql.SQL("not (_load_id > {} and _load_id <= {})").format(after, until)


def keep_removed(connection: Connection, load: Load) -> sql.Identifier:
    """Create a table, for this transaction, that takes the rows that a replay replaces."""
    target = target_identifier(load.declaration.target)
    connection.execute(sql.SQL("create temporary table {} (like {}) on commit drop").format(REMOVED, target))
    return REMOVED
