"""Where a range differs from the log: it is read and decoded once more, and compared row by row inside the database."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.kafka.readers import native
from penstock.ledger.connection import open_ledger
from penstock.ledger.verification import read_quarantined_offsets
from penstock.model.ranges import cut_chunks
from penstock.verify.rebuilt_rows import Again, Chosen, make_recipe

if TYPE_CHECKING:
    from penstock.model.load import Load
    from penstock.model.ranges import Chunk, Range
    from penstock.settings import Settings

OFFSETS_AT_ONCE = 250_000
# A range that was loaded from something else altogether differs everywhere: some places are enough to look.
MOST_PLACES = 20


@dataclass(frozen=True, slots=True)
class Difference:
    """An offset at which the table does not hold what the log gives; of the quarantine, likewise."""

    offset: int
    kind: Literal["missing", "too many", "changed"]
    quarantined: bool = False

    def __str__(self) -> str:
        return f"{self.offset} {self.kind}{' in the quarantine' if self.quarantined else ''}"


def locate_differences(
    settings: Settings, load: Load, range_: Range, *, compacted: bool
) -> tuple[list[Difference], int]:
    """Compare a range with the log; the first differences come back, and how many offsets differ in all.

    That a compacted log has fewer records than were loaded is no difference.
    """
    differences: list[Difference] = []
    count = 0
    with Again(make_recipe(settings, load)) as again:
        for chunk in cut_chunks([range_], OFFSETS_AT_ONCE):
            found, of_all = _compare(settings.db, load, again, chunk, compacted=compacted)
            differences += found
            count += of_all
    return sorted(differences, key=lambda difference: difference.offset)[:MOST_PLACES], count


def _compare(db: str, load: Load, again: Again, chunk: Chunk, *, compacted: bool) -> tuple[list[Difference], int]:
    range_, source = chunk.range, again.recipe.assignment.source
    with open_ledger(db) as connection:
        rows = read_quarantined_offsets(connection, load.load_id, range_)
    refused = {row.offset for row in rows if row.refused}
    chosen = Chosen(((range_.from_offset, range_.until_offset),), tuple(refused))
    with closing(native.read_whole(source, chunk)) as batches:
        differing = again.compare(batches, chosen, range_, compacted=compacted)
    found = [Difference(offset, kind) for offset, kind, _ in differing]
    quarantined = {row.offset for row in rows} - refused
    quarantine = _compare_quarantine(quarantined, again.rejected - refused, compacted=compacted)
    return found + quarantine, (differing[0][2] if differing else 0) + len(quarantine)


def _compare_quarantine(held: set[int], rejected: set[int], *, compacted: bool) -> list[Difference]:
    return [
        *(Difference(offset, "missing", quarantined=True) for offset in rejected - held),
        *(Difference(offset, "too many", quarantined=True) for offset in held - rejected if not compacted),
    ]
