"""The interface of a target, the place of a pipeline's rows, for the steps of a load and for decisions of people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import sql

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load
    from penstock.model.ranges import Range


@dataclass(frozen=True, slots=True)
class RowSum:
    """The number of some rows, and the sum of their hashes."""

    rows: int = 0
    hash: int = 0

    def __add__(self, other: Self) -> Self:
        return type(self)(self.rows + other.rows, self.hash + other.hash)

    def __sub__(self, other: Self) -> Self:
        return type(self)(self.rows - other.rows, self.hash - other.hash)


class TargetStore(Protocol):
    """The place of one pipeline's rows.

    `connection` is the ledger's. Every method works in the transaction of its caller, and no method commits: rows,
    coverage and the state of the load change together or not at all.
    """

    def prepare(self, connection: Connection) -> None:
        """Create the target if it does not exist, and add the nullable columns that it does not have.

        A target that cannot hold the declared columns raises a DeclarationError. The caller runs this in a transaction
        of its own and commits at once: readers of the target wait for the end of a transaction that added a column.
        """

    def prepare_indexes(self, connection: Connection) -> None:
        """Create the declared indexes that the target does not have.

        The caller runs this in a transaction of its own, after `prepare`: to build an index takes time, and writers of
        the target wait for the end of the transaction.
        """

    def open_attempt(self, connection: Connection, load: Load, attempt: int) -> None:
        """Create an empty place for the rows of an attempt, which readers of the target do not see.

        It runs in the transaction that makes the attempt the current one, so that a current attempt has its place.
        """

    def seal(self, connection: Connection, load: Load, attempt: int) -> None:
        """End tries that still write to the attempt, and prove that no offset is staged twice.

        It runs in the transaction that moves the load to `staged`. A StageError says which offset is staged twice.
        """

    def publish(self, connection: Connection, load: Load) -> None:
        """Make the staged rows of the load visible, all of them at the COMMIT of the publish transaction.

        For a live load or a backfill the time does not depend on the number of rows. For a replay the method first
        waits until it is alone with the target, so that no reader sees both the old and the new rows, or neither.
        """

    def take_out(self, connection: Connection, load: Load, ranges: Iterable[Range]) -> None:
        """Remove the rows of a published load from the target, and keep the rows for `put_back`.

        `ranges` are the ranges that the load covers. It runs in the transaction of the rollback.
        """

    def put_back(self, connection: Connection, load: Load) -> None:
        """Return the rows that `take_out` kept to the target, in the transaction that undoes the rollback."""

    def drop_kept(self, connection: Connection, load_id: int) -> None:
        """Drop the rows that `take_out` kept, after their keeping time.

        The caller sets a lock_timeout, and retries later when another session reads the rows.
        """

    def interrupt_merge(self, connection: Connection) -> None:
        """End a merge that holds published rows, before the caller's transaction deletes some of the rows.

        The merge can start again later. Its leaves stay locked against new merges while the caller holds the lock of
        plan and publish.
        """

    def delete(self, connection: Connection, load: Load, range_: Range, into: sql.Identifier | None = None) -> None:
        """Delete the published rows that a load has of a range, in the publish transaction of a replay.

        A table `into` takes the rows, for the results that are computed from them.
        """

    def count(self, connection: Connection, load: Load, range_: Range) -> RowSum:
        """Count and hash the published rows that a load has of a range, as the caller's transaction sees them."""

    def count_staged(self, connection: Connection, load: Load, range_: Range, columns_of: Pipeline) -> RowSum:
        """Count and hash the rows that the current attempt has of a range, by the columns of a declaration."""

    def sweep(self, connection: Connection) -> int:
        """Drop the places of attempts that no load needs any more, and count them.

        It covers all pipelines. A place that a stopped attempt still writes to is left for the next sweep.
        """
