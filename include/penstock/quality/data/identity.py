"""Ids that come twice, and keys that are in several partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.quality.data.base import HistoryExpectation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.quality.data.base import Finding
    from penstock.quality.data.batch import DataBatch


class ExpectBusinessIdUnique(HistoryExpectation):
    """An id comes once in the batch and, with `history`, once in the batch and that table together.

    The record with the lowest timestamp, partition and offset is the original; every other one is a copy. A copy
    within `near` offsets after its original, in one partition, is typical of a producer that retries without
    idempotence. A copy in another partition was sent again by a program, or after partitions were added. Records
    without an id are left out. Without `replaced`, rows of the history at a place of the batch are left out.
    """

    columns: list[str]
    near: int = 1000

    kinds: ClassVar = {"near_copies": (None, None), "far_copies": (None, None), "copies_elsewhere": (None, None)}
    sentence: ClassVar[str] = "$columns must identify one record."

    def find(self, batch: DataBatch) -> str:
        """Find the ids that come twice first, because few do: a window over all rows would sort all their columns."""
        listed = ", ".join(batch.name(column) for column in self.columns)
        copies = (
            f"{self._find_twice(batch)}, numbered as (select {listed}, _partition, _offset,"
            " row_number() over by_time as place,"
            " first_value(_partition) over by_time as first_partition,"
            " first_value(_offset) over by_time as first_offset,"
            f" lag(_offset) over (partition by {listed}, _partition order by _offset) as previous_offset"
            f" from {batch.table} join twice using ({listed})"
            f" window by_time as (partition by {listed} order by _timestamp nulls last, _partition, _offset)),"
            " copies as (select _partition, _offset,"
            " case when previous_offset is null then first_partition else _partition end as other_partition,"
            " coalesce(previous_offset, first_offset) as other_offset from numbered where place > 1)"
        )
        if self.history is not None:
            copies += f", {self._find_in_history(batch)}"
            source = "(select * from copies union all select * from old_copies) copy"
        else:
            source = "copies copy"
        return (
            f"{copies}, found as (select _partition, _offset, case when other_partition <> _partition"
            f" then 'copies_elsewhere' when abs(_offset - other_offset) <= {self.near} then 'near_copies'"
            f" else 'far_copies' end as kind, 0 as size, other_partition, other_offset from {source})"
        )

    def _find_twice(self, batch: DataBatch) -> str:
        """Find the ids that come twice: first their terms by a sort of nothing else, then the ids themselves.

        Sorting 4M ids takes 0.8 CPU seconds. PostgreSQL would rather make a hash table, which takes 1.2; it did so in
        each parallel worker, 4.2 in all, until the table expressions were materialized.
        """
        terms = {f"term_{place}": batch.sortable(column, "s") for place, column in enumerate(self.columns)}
        names = ", ".join(terms)
        selected = ", ".join(f"{term} as {name}" for name, term in terms.items())
        same = " and ".join(f"{term} = suspected.{name}" for name, term in terms.items())
        listed = ", ".join(f"s.{batch.name(column)}" for column in self.columns)
        given = " and ".join(f"s.{batch.name(column)} is not null" for column in self.columns)
        return (
            f"suspected as {batch.materialized} (select {names} from"
            f" (select {selected} from {batch.table} s where {given} order by {names}) sorted"
            f" group by {names} having count(*) > 1),"
            f" twice as {batch.materialized} (select {listed} from {batch.table} s join suspected on {same}"
            f" where {given} group by {listed} having count(*) > 1)"
        )

    def _find_in_history(self, batch: DataBatch) -> str:
        """Find the originals of ids in earlier loads."""
        # A copy within the batch is found already, so only the first record of an id is compared with the history.
        same_id = batch.equals(self.columns, "s", "h") + self.write_window()
        later = "select _partition, _offset from numbered where place > 1"
        same_place = (
            f" left join {batch.table} same on same._partition = h._partition and same._offset = h._offset"
            " where same._offset is null"
        )
        return (
            f"matches as (select s._partition, s._offset, h._partition as other_partition, h._offset as other_offset,"
            " row_number() over (partition by s._partition, s._offset order by"
            " case when h._partition = s._partition then 0 else 1 end, h._offset desc) as place"
            f" from {batch.match(self.history or '', self.read_history(batch), ['_partition', '_offset'], same_id)}"
            f"{same_place if self.replaced is None else ''}),"
            " old_copies as (select m._partition, m._offset, m.other_partition, m.other_offset from matches m"
            f" left join ({later}) again on again._partition = m._partition and again._offset = m._offset"
            " where m.place = 1 and again._offset is null)"
        )


class ExpectKeyInOnePartition(HistoryExpectation):
    """All records of a key are in one partition; with `history`, also those of that table.

    Records of one key in several partitions have no order. The usual cause is that partitions were added to the topic:
    `added_partitions` names those for the result. Each place is the first record of a key outside its first partition.
    """

    key: str
    added_partitions: tuple[int, ...] = ()

    kinds: ClassVar = {"keys_moved": (None, None)}
    sentence: ClassVar[str] = "All records of a $key must be in one partition."

    def find(self, batch: DataBatch) -> str:
        """Group the keys by partition; the first partition of a key is the one with its earliest record."""
        key = batch.name(self.key)
        spread = (
            f"spread as {batch.materialized} (select {key}, _partition, min(_offset) as _offset,"
            f" min(_timestamp) as first_time from {batch.scan([self.key, '_partition', '_offset', '_timestamp'])}"
            f" where {key} is not null group by {key}, _partition"
            f" order by {key}), homes as (select spread.*,"
            f" first_value(_partition) over by_time as first_partition,"
            f" first_value(_offset) over by_time as first_offset"
            f" from spread window by_time as (partition by {key} order by first_time nulls last, _partition)),"
            " moved as (select _partition, _offset, first_partition as other_partition, first_offset as other_offset"
            " from homes where _partition <> first_partition)"
        )
        source = "moved"
        if self.history is not None:
            spread += f", {self._find_in_history(batch, key)}"
            source = "(select * from moved union all select * from moved_since) each_moved"
        return (
            f"{spread}, found as (select _partition, _offset, 'keys_moved' as kind, 0 as size, other_partition,"
            f" other_offset from {source})"
        )

    def _find_in_history(self, batch: DataBatch, key: str) -> str:
        """The least and the greatest partition of a key are found by the index; another one proves that it moved."""
        condition = f"{batch.equals([self.key], 'keys', 'h')}{self.write_window()}"
        history, columns = self.read_history(batch), [key, "_partition", "_offset"]
        other = [
            batch.newest(
                "firsts", columns, "_partition", history, f"{condition} and h._partition {sign} keys._partition"
            )
            for sign in ("<", ">")
        ]
        # A key in several partitions of the batch is found already.
        return (
            "firsts as (select * from homes where _partition = first_partition and not exists"
            f" (select 1 from spread other where other.{key} = homes.{key} and other._partition <> homes._partition)),"
            f" lower as ({other[0]}), higher as ({other[1]}), moved_since as ("
            "select _partition, _offset, reached as other_partition, cast(null as bigint) as other_offset from lower"
            " where reached is not null union select _partition, _offset, reached, cast(null as bigint) from higher"
            " where reached is not null)"
        )

    def _observe(self, rows: Sequence[Finding]) -> dict[str, Any]:
        observed = super()._observe(rows)
        return observed | ({"added_partitions": list(self.added_partitions)} if rows and self.added_partitions else {})
