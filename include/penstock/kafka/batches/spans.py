"""What the log holds at each offset: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# `removed` lies inside a batch that has lost the record, `absent` in no batch at all, `gone` below the log's start,
# `ahead` at the log's end or beyond it.
What = Literal["record", "aborted", "marker", "removed", "absent", "gone", "ahead"]


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition that are alike: from `from_offset` up to, and without, `until_offset`."""

    from_offset: int
    until_offset: int
    what: What

    def __len__(self) -> int:
        return self.until_offset - self.from_offset


def tile_spans(spans: Iterable[Span], at: int, until: int) -> Iterator[Span]:
    """Cut spans that rise to [at, until), and put down as absent what lies between them."""
    for span in spans:
        start, end = max(span.from_offset, at), min(span.until_offset, until)
        if start >= end:
            continue
        if start > at:
            yield Span(at, start, "absent")
        yield Span(start, end, span.what)
        at = end
    if at < until:
        yield Span(at, until, "absent")
