"""The order of the records of a key, and the numbers of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.declaration.durations import parse_duration
from penstock.quality.data.base import HistoryExpectation

if TYPE_CHECKING:
    from penstock.quality.data.batch import DataBatch


class ExpectKeyOrderWithinPartition(HistoryExpectation):
    """In each partition, the `order_by` column of a key never falls while the offset rises.

    A record is late if an earlier record of its key and partition has a greater value. With `history`, the records
    of that table come before those of the batch; `history_is_before` says that all of them have lower offsets. A
    producer that sends several batches at once and retries one of them, without idempotence, makes such records.
    Records without a key or a value are left out.
    """

    key: str
    order_by: str
    tolerance: float | str = 0
    history_is_before: bool = False

    kinds: ClassVar = {"late": ("worst_delay", None)}
    sentence: ClassVar[str] = "$order_by of each $key must not fall while the offset rises, within a partition."

    def find(self, batch: DataBatch) -> str:
        """Compare each value with the greatest value before it."""
        key, value = batch.name(self.key), batch.name(self.order_by)
        moment = batch.is_moment(self.order_by)
        reached = f"max({value}) over (partition by {key}, _partition order by _offset"
        staged = (
            f"staged as (select {key}, _partition, _offset, {value}, {reached}"
            f" rows between unbounded preceding and 1 preceding) as reached"
            f" from {batch.scan([self.key, '_partition', '_offset', self.order_by])}"
            f" where {key} is not null and {value} is not null)"
        )
        seen, before = staged, "staged.reached"
        source = "staged"
        if self.history is not None:
            condition = f"{batch.equals([self.key], 'keys', 'h')} and h._partition = keys._partition"
            condition += self.write_window()
            if not self.history_is_before:  # the index does not hold the offset: the rows are read
                condition += " and h._offset < keys.first_offset"
            columns = [key, "_partition"]
            known = batch.newest("keys", columns, value, self.read_history(batch), condition)
            seen += (
                f", keys as {batch.materialized} (select {key}, _partition, min(_offset) as first_offset from staged"
                f" group by {key}, _partition order by {key}, _partition), known as {batch.materialized} ({known})"
            )
            before = "greatest(staged.reached, known.reached)"
            source = f"staged join known on known.{key} = staged.{key} and known._partition = staged._partition"
        tolerance = self._tolerance(moment=moment)
        size = batch.seconds("before", value) if moment else f"before - {value}"
        return (
            f"{seen}, compared as (select staged._partition, staged._offset, staged.{value}, {before} as before"
            f" from {source}), found as (select _partition, _offset, 'late' as kind, {size} as size,"
            " cast(null as int) as other_partition, cast(null as bigint) as other_offset"
            f" from compared where {value} < before - {tolerance})"
        )

    def _tolerance(self, *, moment: bool) -> str:
        if isinstance(self.tolerance, str):
            return f"interval '{parse_duration(self.tolerance).total_seconds():.0f}' second"
        return "interval '0' second" if moment else repr(self.tolerance)


class ExpectSequenceWithoutGaps(HistoryExpectation):
    """In each partition, the sequence numbers of a key (without a key: of the partition) rise by one.

    The numbers are compared in their own order, so that a late record makes no gap. `missing` counts the numbers that
    are missing, and each place is the record after a gap. With `history`, the numbers of that table come before.
    """

    sequence: str
    key: str | None = None

    kinds: ClassVar = {"gaps": ("widest", "missing")}
    sentence: ClassVar[str] = "$sequence must rise by one, without missing numbers."

    def find(self, batch: DataBatch) -> str:
        """Compare each number with the number before it."""
        number = batch.name(self.sequence)
        group = [*([batch.name(self.key)] if self.key else []), "_partition"]
        grouped = ", ".join(group)
        with_key = f" and {group[0]} is not null" if self.key else ""
        numbered = (
            f"staged as (select {grouped}, _offset, {number}, lag({number}) over (partition by {grouped}"
            f" order by {number}, _offset) as before"
            f" from {batch.scan([*([self.key] if self.key else []), '_partition', '_offset', self.sequence])}"
            f" where {number} is not null{with_key})"
        )
        source, before = "staged", "staged.before"
        if self.history is not None:
            condition = f"h._partition = keys._partition and h.{number} < keys.{number}"
            condition += f" and {batch.equals([self.key], 'keys', 'h')}" if self.key else ""
            condition += self.write_window()
            columns = [*group, "_offset"]
            known = batch.newest("keys", columns, number, self.read_history(batch), condition)
            numbered += (
                f", keys as {batch.materialized} (select {grouped}, _offset, {number} from staged where before is null"
                f" order by {grouped}), known as {batch.materialized} ({known})"
            )
            source = "staged left join known on known._partition = staged._partition and known._offset = staged._offset"
            before = "coalesce(staged.before, known.reached)"
        return (
            f"{numbered}, compared as (select staged._partition, staged._offset, staged.{number}, {before} as before"
            f" from {source}), found as (select _partition, _offset, 'gaps' as kind, {number} - before - 1 as size,"
            " cast(null as int) as other_partition, cast(null as bigint) as other_offset"
            f" from compared where {number} - before > 1)"
        )
