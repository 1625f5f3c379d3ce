"""The maintenance of a pipeline: rows and records past their keeping time are dropped, then leaves are merged."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import FencedError, MergeError, PenstockError, name_few
from penstock.ledger.connection import open_ledger
from penstock.ledger.incident import end_incidents, see_incident
from penstock.ledger.load import find_open_loads
from penstock.ledger.maintenance import forget_left_out, lock_maintenance, read_left_out, record_left_out
from penstock.ledger.pipeline import find_pipeline
from penstock.ledger.verification import count_again
from penstock.maintenance.retention import (
    drop_check_results,
    drop_kept_rows,
    drop_old_guards,
    drop_old_leaves,
    drop_old_tasks,
    drop_stray_merges,
    drop_uncounted,
    empty_quarantine,
    list_old_leaves,
)
from penstock.model.incident import IncidentKind, Sighting
from penstock.target.postgres.leaves import read_leaves
from penstock.target.postgres.levels import plan_merges, predict_merges
from penstock.target.postgres.merge import InUseError, LeafError, Merge, check_leaf, merge_leaves
from penstock.target.registry import find_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.target.postgres.levels import Leaf


@dataclass(frozen=True, slots=True)
class Dropped:
    """The loads whose kept rows were dropped, and the numbers of other things dropped after their keeping time."""

    kept_loads: tuple[int, ...] = ()
    uncounted: int = 0
    emptied: int = 0
    tasks: int = 0
    tables: int = 0
    check_results: int = 0
    guards: int = 0
    leaves: int = 0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A leaf that cannot be merged, and the reason."""

    leaf: str
    from_load: int
    until_load: int
    reason: str

    def __str__(self) -> str:
        return f"{self.leaf} (loads {self.from_load} to {self.until_load - 1}) cannot be merged: {self.reason}"


@dataclass(frozen=True, slots=True)
class Maintained:
    """The results of a maintenance, or of its preview."""

    pipeline: str
    dropped: Dropped
    leaves_before: int
    leaves_after: int
    merges: int
    left_out: tuple[LeftOut, ...] = ()

    @property
    def refused(self) -> MergeError | None:
        """The error that names the leaves that were left out; None if all leaves can be merged."""
        if not self.left_out:
            return None
        return MergeError(
            f"{'; '.join(name_few(self.left_out))}. The other leaves were merged.",
            pipeline=self.pipeline,
            next_step=advice.replace_refused_rows(self.pipeline),
        )


def maintain(uri: str, pipeline: Pipeline, report: Callable[[str], None]) -> Maintained:
    """Maintain a pipeline, one process at a time. An error does not undo the parts that are done."""
    with closing(open_ledger(uri)) as connection:
        pipeline_id = _lock(connection, pipeline)
        if pipeline_id is None:
            return _nothing(pipeline)
        dropped = _drop(connection, pipeline, pipeline_id, connection.commit)
        before = len(read_leaves(connection, pipeline, pipeline_id))
        dropped = replace(dropped, leaves=drop_old_leaves(connection, pipeline, pipeline_id))
        merging = _Merging(uri, connection, pipeline, pipeline_id, report)
        merging.run()
        after = len(read_leaves(connection, pipeline, pipeline_id))
        left_out = tuple(merging.left_out.values())
        done = Maintained(pipeline.name, dropped, before, after, merging.merges, left_out)
        _see_left_out(connection, pipeline, done)
        connection.commit()
    if merging.failed:
        raise merging.failed[0]
    return done


def _see_left_out(connection: Connection, pipeline: Pipeline, done: Maintained) -> None:
    """Record the leaves that cannot be merged as one incident; it ends when all leaves can be merged."""
    kind = IncidentKind.UNMERGED_LEAVES
    if done.refused is None:
        end_incidents(connection, pipeline.name, [kind], None, by="penstock", why="no leaf is left out of the merges")
    else:
        sighting = Sighting(pipeline.name, kind, kind, done.refused.what, done.refused.next_step)
        see_incident(connection, sighting, pipeline.alerts)


class _Merging:
    """The merges of one maintenance. After a failed merge the others are still tried."""

    def __init__(
        self, uri: str, connection: Connection, pipeline: Pipeline, pipeline_id: int, report: Callable[[str], None]
    ) -> None:
        self.uri, self.connection, self.report = uri, connection, report
        self.pipeline, self.pipeline_id = pipeline, pipeline_id
        self.merges = 0
        self.left_out: dict[int, LeftOut] = {}  # by the first load of the leaf
        self.failed: list[PenstockError] = []
        self._tried: set[tuple[Leaf, ...]] = set()

    def run(self) -> None:
        """Merge until the leaves are few enough, or the remaining merges have failed."""
        self._check_left_out()
        while groups := [group for group in self._plan() if group not in self._tried]:
            for group in groups:
                self._tried.add(group)
                try:
                    self._merge(group)
                except InUseError as error:
                    self.failed.append(error)
                    return
                except PenstockError as error:
                    self.failed.append(error)
                    self.report(str(error))

    def _merge(self, group: tuple[Leaf, ...]) -> None:
        merge = Merge(self.pipeline, self.pipeline_id, group)
        try:
            # Twice: this process may die after the merge, and a verification may run during the merge.
            self._count_again(group)
            rows = merge_leaves(self.uri, merge)
            self._count_again(group)
        except LeafError as error:
            self._leave_out(error)
        else:
            self.merges += 1
            self.report(f"{self.pipeline.name}: {merge} is done, {rows:,} rows.")

    def _count_again(self, group: tuple[Leaf, ...]) -> None:
        """Let the next verification count the loads of merged leaves."""
        count_again(self.connection, self.pipeline.name, [(group[0].from_load, group[-1].until_load)])
        self.connection.commit()

    def _check_left_out(self) -> None:
        """Try each leaf alone that could not be merged before, so that no merge copies its neighbours in vain."""
        leaves = read_leaves(self.connection, self.pipeline, self.pipeline_id)
        known = {leaf.from_load: leaf for leaf in leaves}
        wanted = {leaf for group in self._plan() for leaf in group}
        for left_out in read_left_out(self.connection, self.pipeline_id):
            leaf = known.get(left_out.from_load)
            if leaf is None or leaf.until_load != left_out.until_load:
                self._readmit(left_out.from_load)
            elif leaf in wanted:
                try:
                    check_leaf(self.uri, self.pipeline, self.pipeline_id, leaf)
                    self._readmit(leaf.from_load)
                except LeafError as error:
                    self._leave_out(error)

    def _leave_out(self, error: LeafError) -> None:
        leaf = error.leaf
        found = LeftOut(f"{leaf.schema}.{leaf.name}", leaf.from_load, leaf.until_load, error.reason)
        self.left_out[leaf.from_load] = found
        record_left_out(self.connection, self.pipeline_id, **asdict(found))
        self.connection.commit()
        self.report(f"{self.pipeline.name}: {found}; it is left out.")

    def _readmit(self, from_load: int) -> None:
        forget_left_out(self.connection, self.pipeline_id, from_load)
        self.connection.commit()

    def _plan(self) -> list[tuple[Leaf, ...]]:
        """Plan the next merges. A leaf that is left out separates its neighbours, like a leaf of unknown loads."""
        leaves = [
            replace(leaf, loads=0) if leaf.from_load in self.left_out else leaf
            for leaf in read_leaves(self.connection, self.pipeline, self.pipeline_id)
        ]
        groups = plan_merges(leaves, _read_unfinished(self.connection, self.pipeline))
        self.connection.commit()
        return groups


def preview_maintenance(uri: str, pipeline: Pipeline) -> Maintained:
    """Preview a maintenance. Nothing is changed."""
    with closing(open_ledger(uri)) as connection:
        pipeline_id = _lock(connection, pipeline)
        if pipeline_id is None:
            return _nothing(pipeline)
        dropped = _drop(connection, pipeline, pipeline_id, connection.rollback)
        leaves = read_leaves(connection, pipeline, pipeline_id)
        old = {leaf.from_load for leaf in list_old_leaves(connection, pipeline, pipeline_id)}
        dropped = replace(dropped, leaves=len(old))
        leaves = [leaf for leaf in leaves if leaf.from_load not in old]
        left, merges, _ = predict_merges(leaves, _read_unfinished(connection, pipeline))
    return Maintained(pipeline.name, dropped, len(leaves) + len(old), len(left), merges)


def _lock(connection: Connection, pipeline: Pipeline) -> int | None:
    """Lock the maintenance of the pipeline until the session ends; None if the pipeline has planned nothing yet."""
    pipeline_id = find_pipeline(connection, pipeline.name)
    if pipeline_id is None:
        return None
    locked = lock_maintenance(connection, pipeline_id)
    connection.commit()  # the lock belongs to the session; no transaction stays open while leaves are merged
    if not locked:
        raise FencedError(
            "another process maintains the pipeline.", pipeline=pipeline.name, next_step=advice.MAINTENANCE_CONTINUES
        )
    return pipeline_id


def _drop(connection: Connection, pipeline: Pipeline, pipeline_id: int, end: Callable[[], None]) -> Dropped:
    """Drop each kind in a transaction of its own, because only the first needs the lock of plan and publish."""
    kept = drop_kept_rows(connection, pipeline, pipeline_id)
    end()
    uncounted = drop_uncounted(connection, pipeline_id)
    emptied = empty_quarantine(connection, pipeline, pipeline_id)
    tasks = drop_old_tasks(connection, pipeline, pipeline_id)
    results = drop_check_results(connection, pipeline, pipeline_id)
    end()
    guards = drop_old_guards(connection, pipeline, pipeline_id)
    end()
    tables = find_store(pipeline).sweep(connection) + drop_stray_merges(connection, pipeline_id)
    end()
    return Dropped(tuple(kept), uncounted, emptied, tasks, tables, results, guards)


def _read_unfinished(connection: Connection, pipeline: Pipeline) -> list[int]:
    """Read the loads that may still be published into the pipeline's target."""
    return find_open_loads(connection, str(pipeline.target))


def _nothing(pipeline: Pipeline) -> Maintained:
    return Maintained(pipeline.name, Dropped(), 0, 0, 0)
