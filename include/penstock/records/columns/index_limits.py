"""Whether values fit into the declared indexes: PostgreSQL refuses an index entry of more than a third of a page.

One such value would cost the whole load when its index is built, so it is found here, while it is still one record's
matter. The rule does not count on compression, which would make a record's fate depend on how well it packs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.records.rejection import Unfit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.declaration.columns import ColumnType

# An entry takes 2,704 bytes, its own header among them.
ENTRY = 2_680
# What a column takes at most beside its text or bytes, alignment included; a numeric of 76 digits is the widest.
BESIDE = {"numeric": 56}
USUAL = 24


@dataclass(frozen=True, slots=True)
class IndexRoom:
    """One declared index: which of its columns have no fixed width, and how many bytes they may take together."""

    names: tuple[str, ...]
    wide: tuple[str, ...]
    padded: Mapping[str, int]
    room: int

    def find_unfit(self, columns: Mapping[str, pa.Array]) -> Iterator[tuple[int, Unfit]]:
        """Find the rows that the index cannot hold."""
        totals = None
        for name in self.wide:
            sizes = pc.fill_null(self._measure(name, columns[name]), 0)
            totals = sizes if totals is None else pc.add(totals, sizes)
        if totals is None or (pc.max(totals).as_py() or 0) <= self.room:
            return
        for index, total in enumerate(totals.to_pylist()):
            if total > self.room:
                detail = f"{total} bytes where the index on {', '.join(self.names)} takes {self.room}"
                yield index, Unfit("too_long", f"column {self.wide[0]}: {detail}")

    def _measure(self, name: str, column: pa.Array) -> pa.Array:
        sizes = pc.cast(pc.binary_length(column), pa.int64())
        if name not in self.padded:
            return sizes
        return pc.add(sizes, pc.subtract(self.padded[name], pc.cast(pc.utf8_length(column), pa.int64())))


def make_index_rooms(indexes: Sequence[Sequence[str]], types: Mapping[str, ColumnType]) -> list[IndexRoom]:
    """The declared indexes that have columns without a fixed width."""
    rooms = []
    for names in indexes:
        wide = [name for name in names if name in types and types[name].family in ("text", "varchar", "char", "bytea")]
        if wide:
            beside = sum(BESIDE.get(types[name].family, USUAL) if name in types else USUAL for name in names)
            # char(n) is filled up with blanks.
            padded = {name: types[name].length or 0 for name in wide if types[name].family == "char"}
            rooms.append(IndexRoom(tuple(names), tuple(wide), padded, ENTRY - beside))
    return rooms
