"""A target in PostgreSQL: a table partitioned by load, in the database of the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.target.postgres import attempt as attempts
from penstock.target.postgres import leaves, rows
from penstock.target.postgres.preparation import ensure_indexes, ensure_table
from penstock.target.postgres.table import target_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load
    from penstock.model.ranges import Range
    from penstock.target.base import RowSum


@dataclass(frozen=True, slots=True)
class PostgresStore:
    """The rows of one pipeline in PostgreSQL. `TargetStore` describes what each method guarantees."""

    pipeline: Pipeline

    def prepare(self, connection: Connection) -> None:
        """Create the target table, or add its missing columns."""
        ensure_table(connection, self.pipeline)

    def prepare_indexes(self, connection: Connection) -> None:
        """Create the missing indexes."""
        ensure_indexes(connection, self.pipeline)

    def open_attempt(self, connection: Connection, load: Load, attempt: int) -> None:
        """Create the attempt's table."""
        attempts.create_attempt_table(connection, load, attempt)

    def seal(self, connection: Connection, load: Load, attempt: int) -> None:
        """Build the primary key, which refuses an offset that is staged twice."""
        attempts.end_losing_tries(connection, load, attempt)
        attempts.key_attempt_table(connection, load, attempt)

    def publish(self, connection: Connection, load: Load) -> None:
        """Attach the attempt's table as a partition of the target."""
        attempts.publish_attempt_table(connection, load)

    def take_out(self, connection: Connection, load: Load, ranges: Iterable[Range]) -> None:
        """Detach the load's partition, or move its rows out of a merged one."""
        leaves.take_out(connection, load, ranges)

    def put_back(self, connection: Connection, load: Load) -> None:
        """Attach the kept table again, or insert its rows into the merged partition."""
        leaves.put_back(connection, load)

    def drop_kept(self, connection: Connection, load_id: int) -> None:
        """Drop the kept table."""
        connection.execute(sql.SQL("drop table if exists {}").format(leaves.kept_table(load_id)))

    def interrupt_merge(self, connection: Connection) -> None:
        """End the sessions of a merge of this target's leaves."""
        leaves.end_merges(connection, self.pipeline.target)

    def delete(self, connection: Connection, load: Load, range_: Range, into: sql.Identifier | None = None) -> None:
        """Delete rows by the primary key of their partition, or move them."""
        table = target_identifier(self.pipeline.target)
        if into is None:
            rows.delete_rows(connection, table, load.load_id, range_)
        else:
            rows.move_rows(connection, table, load.load_id, range_, into)

    def count(self, connection: Connection, load: Load, range_: Range) -> RowSum:
        """Count rows of the target."""
        return rows.count_rows(
            connection, target_identifier(self.pipeline.target), load.load_id, range_, load.declaration
        )

    def count_staged(self, connection: Connection, load: Load, range_: Range, columns_of: Pipeline) -> RowSum:
        """Count rows of the attempt's table."""
        table = attempts.attempt_table(load.load_id, load.attempt)
        return rows.count_rows(connection, table, load.load_id, range_, columns_of)

    def sweep(self, connection: Connection) -> int:
        """Drop stale attempt tables of all pipelines."""
        return len(attempts.sweep_attempt_tables(connection))
