"""Tasks of an attempt in the ledger, in the caller's transaction; target/ runs the statements of the executors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.ledger.statements import Statements
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from penstock.ledger.connection import Connection

_statements = Statements("ledger/stage_task")


@dataclass(frozen=True, slots=True)
class StageTask:
    """The counts of one task."""

    task: int
    partition: int
    from_offset: int
    until_offset: int
    rows: int
    quarantined: int
    holes: int
    filtered: int = 0

    @property
    def range(self) -> Range:
        """The offsets of the task's chunk."""
        return Range(self.partition, self.from_offset, self.until_offset)

    @property
    def accounted(self) -> int:
        """How many offsets the task accounts for."""
        return self.rows + self.quarantined + self.holes + self.filtered


def read_stage_tasks(connection: Connection, load_id: int, attempt: int) -> list[StageTask]:
    """Read the counts of an attempt's tasks."""
    return _statements.fetch_all(connection, StageTask, "read_stage_tasks", load_id=load_id, attempt=attempt)


def lock_staging(connection: Connection, load_id: int, attempt: int) -> None:
    """Make two drivers of one attempt finish one after the other."""
    _statements.execute(connection, "lock_staging", name=f"penstock stage {load_id} {attempt}")


def compose_find() -> str:
    """The text that finds tasks that some try has committed; executors run it over ADBC."""
    return _statements.compose_text("find_stage_tasks")


def compose_settle() -> str:
    """The text that records tasks; executors run it over ADBC."""
    return _statements.compose_text("settle_stage_tasks")
