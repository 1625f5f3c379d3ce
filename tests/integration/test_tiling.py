"""Covered ranges, losses and gaps tile every partition from its origin to its position, after any history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from declaring import declare
from fix_loads import plan_rows
from penstock.ledger.connection import connect
from penstock.ledger.coverage import bring_back, cover_ranges, set_aside
from penstock.ledger.generation import move_positions
from penstock.ledger.load import read_load
from penstock.load.log_check import Loss, record_losses
from penstock.model.log import PartitionLog
from penstock.model.plan import Fault
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load

Step = tuple[Literal["load", "lose", "roll back", "undo", "fill"], int, int]
steps = st.tuples(st.sampled_from(["load", "lose", "roll back", "undo", "fill"]), st.integers(0, 1), st.integers(1, 30))


class Ledger:
    """A pipeline that starts at offset 10 of its two partitions, and the steps of its history."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.first = plan_rows(connection, declare("topic"), [Range(0, 10, 11), Range(1, 10, 11)])
        self.end_load(self.first, "discarded")
        self.positions = {0: 10, 1: 10}
        self.lost: set[tuple[int, int]] = set()
        self.loads: list[Load] = []

    def do(self, step: Step) -> None:
        action, partition, size = step
        start = self.positions[partition]
        if action == "load":
            self.load(Range(partition, start, start + size), "live")
            self.positions[partition] += size
        elif action == "lose":
            fault = Fault("log_start_passed", partition, start, PartitionLog(start + size, start + 100))
            loss = Loss(fault, None, None)
            self.lost |= spread(loss.range)
            record_losses(self.connection, self.first.pipeline_id, self.first.generation_id, [loss], "ann", "gone")
            self.positions[partition] += size
        elif action == "fill":
            for range_ in self.read("gaps")[:size]:
                self.load(range_, "backfill")
        elif self.loads:
            load = self.loads[size % len(self.loads)]
            if action == "roll back":
                set_aside(self.connection, load)
                self.end_load(load, "rolled_back")
            elif not any(set(range_) & self.offsets("covered") for range_ in map(spread, load.ranges)):
                bring_back(self.connection, load)

    def load(self, range_: Range, kind: Literal["live", "backfill"]) -> None:
        """Publish a range whose offsets are all rows."""
        load = plan_rows(self.connection, declare("topic"), [range_], kind)
        self.connection.execute(
            "update penstock.load_range set rows = until_offset - from_offset, quarantined = 0, holes = 0"
            " where load_id = %s",
            [load.load_id],
        )
        if kind == "live":
            assert move_positions(self.connection, load) == {range_}
        cover_ranges(self.connection, load)
        self.end_load(load, "published")
        self.loads.append(read_load(self.connection, load.load_id))

    def end_load(self, load: Load, state: str) -> None:
        self.connection.execute(
            "update penstock.load set state = %s, run_id = load_id::text where load_id = %s", [state, load.load_id]
        )

    def read(self, view: str) -> list[Range]:
        rows = self.connection.execute(
            f"select partition, from_offset, until_offset from penstock.{view} order by 1, 2"
        )
        return [Range(*row) for row in rows]

    def offsets(self, view: str) -> set[tuple[int, int]]:
        return {offset for range_ in self.read(view) for offset in spread(range_)}


def spread(range_: Range) -> set[tuple[int, int]]:
    return {(range_.partition, offset) for offset in range(range_.from_offset, range_.until_offset)}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(steps, max_size=14))
def test_covered_losses_and_gaps_tile_every_partition_after_any_history(db: str, history: list[Step]) -> None:
    with connect(db) as connection:
        ledger = Ledger(connection)
        for step in history:
            ledger.do(step)

        parts = [ledger.offsets(view) for view in ("covered", "losses", "gaps")]
        positions = dict(connection.execute("select partition, position from penstock.positions").fetchall())
        connection.rollback()

    assert positions == ledger.positions
    assert parts[1] == ledger.lost, "a loss is listed as a gap, or a gap as a loss"
    whole = {(partition, offset) for partition in (0, 1) for offset in range(10, positions[partition])}
    assert set().union(*parts) == whole
    assert sum(map(len, parts)) == len(whole), "an offset is in two of them"
