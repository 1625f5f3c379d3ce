"""Values that are too long for a declared index: PostgreSQL refuses an index entry of more than a third of a page.

One such value would fail the whole load when the index is built. Here it costs one record only. The limit ignores
compression, because a record's acceptance would depend on how well its value compresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.declaration.columns import families_of
from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.declaration.columns import ColumnType

# PostgreSQL takes an entry of up to 2,704 bytes, header included.
ENTRY = 2_680
# The most bytes of a column without its text or bytes, alignment included. The widest is a numeric of 76 digits.
OVERHEAD = {"numeric": 56}
USUAL_OVERHEAD = 24
WITHOUT_FIXED_WIDTH = families_of("text", "bytes")


@dataclass(frozen=True, slots=True)
class IndexLimit:
    """One declared index: its columns without a fixed width, and how many bytes these may take together."""

    names: tuple[str, ...]
    wide: tuple[str, ...]
    padded: Mapping[str, int]
    limit: int

    def find_rejections(self, columns: Mapping[str, pa.Array]) -> Iterator[tuple[int, Rejection]]:
        """Find the rows that the index cannot hold, by their index in the batch."""
        totals = None
        for name in self.wide:
            sizes = pc.fill_null(self._measure(name, columns[name]), 0)
            totals = sizes if totals is None else pc.add(totals, sizes)
        if totals is None or (pc.max(totals).as_py() or 0) <= self.limit:
            return
        for index, total in enumerate(totals.to_pylist()):
            if total > self.limit:
                detail = f"{total} bytes where the index on {', '.join(self.names)} takes {self.limit}"
                yield index, Rejection("too_long", f"column {self.wide[0]}: {detail}")

    def _measure(self, name: str, column: pa.Array) -> pa.Array:
        sizes = pc.cast(pc.binary_length(column), pa.int64())
        if name not in self.padded:
            return sizes
        return pc.add(sizes, pc.subtract(self.padded[name], pc.cast(pc.utf8_length(column), pa.int64())))


def make_index_limits(indexes: Sequence[Sequence[str]], types: Mapping[str, ColumnType]) -> list[IndexLimit]:
    """Make the limits of the declared indexes that have columns without a fixed width."""
    limits = []
    for names in indexes:
        wide = [name for name in names if name in types and types[name].family in WITHOUT_FIXED_WIDTH]
        if wide:
            overhead = sum(
                OVERHEAD.get(types[name].family, USUAL_OVERHEAD) if name in types else USUAL_OVERHEAD for name in names
            )
            # PostgreSQL pads char(n) with blanks.
            padded = {name: types[name].length or 0 for name in wide if types[name].family == "char"}
            limits.append(IndexLimit(tuple(names), tuple(wide), padded, ENTRY - overhead))
    return limits
