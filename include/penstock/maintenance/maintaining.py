"""The maintenance of a pipeline: what is past its time is dropped, then leaves are merged until they are few enough."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import FencedError
from penstock.ledger import open_ledger
from penstock.maintenance.dropping import drop_kept_rows, drop_old_tasks, drop_uncounted, empty_quarantine
from penstock.maintenance.levels import foresee, plan_merges
from penstock.maintenance.merging import Merge, merge_leaves
from penstock.maintenance.reading import find_pipeline_id, query, read_leaves, read_unfinished
from penstock.target import sweep_attempt_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.ledger import Connection
    from penstock.maintenance.levels import Leaf
    from penstock.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Dropped:
    """What was past its time: loads whose kept rows went, and how much of the rest."""

    kept_loads: tuple[int, ...] = ()
    uncounted: int = 0
    emptied: int = 0
    tasks: int = 0
    tables: int = 0


@dataclass(frozen=True, slots=True)
class Maintained:
    """What maintenance has done, or would do."""

    pipeline: str
    dropped: Dropped
    leaves_before: int
    leaves_after: int
    merges: int


def maintain(uri: str, pipeline: Pipeline, tell: Callable[[str], None]) -> Maintained:
    """Maintain a pipeline, one process at a time. What was done stays done, whatever stops the rest."""
    with closing(open_ledger(uri)) as connection:
        pipeline_id = _lock(connection, pipeline)
        if pipeline_id is None:
            return _nothing(pipeline)
        dropped = _drop(connection, pipeline, pipeline_id, connection.commit)
        before = len(read_leaves(connection, pipeline, pipeline_id))
        merges = 0
        while groups := _plan(connection, pipeline, pipeline_id):
            for group in groups:
                merge = Merge(pipeline, pipeline_id, group)
                tell(f"{pipeline.name}: {merge} is done, {merge_leaves(uri, merge):,} rows.")
                merges += 1
        after = len(read_leaves(connection, pipeline, pipeline_id))
    return Maintained(pipeline.name, dropped, before, after, merges)


def preview_maintenance(uri: str, pipeline: Pipeline) -> Maintained:
    """Say what maintenance would do. Nothing is changed."""
    with closing(open_ledger(uri)) as connection:
        pipeline_id = _lock(connection, pipeline)
        if pipeline_id is None:
            return _nothing(pipeline)
        dropped = _drop(connection, pipeline, pipeline_id, connection.rollback)
        leaves = read_leaves(connection, pipeline, pipeline_id)
        left, merges, _ = foresee(leaves, read_unfinished(connection, pipeline))
    return Maintained(pipeline.name, dropped, len(leaves), len(left), merges)


def _lock(connection: Connection, pipeline: Pipeline) -> int | None:
    """Be the only one to maintain the pipeline, for as long as the session lasts; None if it has loaded nothing yet."""
    pipeline_id = find_pipeline_id(connection, pipeline)
    if pipeline_id is None:
        return None
    locked = query(connection, "lock_maintenance", pipeline_id=pipeline_id).fetchone()
    connection.commit()  # the lock is the session's; a transaction would stand still while leaves are merged
    if not (locked and locked["locked"]):
        raise FencedError(
            "another process maintains the pipeline.", pipeline=pipeline.name, next_step="nothing to do: it goes on."
        )
    return pipeline_id


def _drop(connection: Connection, pipeline: Pipeline, pipeline_id: int, end: Callable[[], None]) -> Dropped:
    """Each part in a transaction of its own: only the first needs the lock of plan and publish."""
    kept = drop_kept_rows(connection, pipeline, pipeline_id)
    end()
    uncounted = drop_uncounted(connection, pipeline_id)
    emptied = empty_quarantine(connection, pipeline, pipeline_id)
    tasks = drop_old_tasks(connection, pipeline_id)
    end()
    tables = sweep_attempt_tables(connection)
    end()
    return Dropped(tuple(kept), uncounted, emptied, tasks, len(tables))


def _plan(connection: Connection, pipeline: Pipeline, pipeline_id: int) -> list[tuple[Leaf, ...]]:
    groups = plan_merges(read_leaves(connection, pipeline, pipeline_id), read_unfinished(connection, pipeline))
    connection.commit()
    return groups


def _nothing(pipeline: Pipeline) -> Maintained:
    return Maintained(pipeline.name, Dropped(), 0, 0, 0)
