"""Offsets of one partition as a person writes them: `0:1000-2000`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import WrongUseError
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable

SPAN = re.compile(r"\s*([0-9]{1,9})\s*:\s*([0-9]{1,18})\s*-\s*([0-9]{1,18})\s*")


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets of one partition, as a person gave them: the span may be empty or reversed."""

    partition: int
    from_offset: int
    until_offset: int

    def __str__(self) -> str:
        return f"partition {self.partition} offsets [{self.from_offset}, {self.until_offset})"


def read_span(text: str) -> Span:
    """Read offsets of one partition."""
    found = SPAN.fullmatch(text)
    if found is None:
        raise WrongUseError(f"{text[:100]!r} is not a range of offsets.", next_step=advice.WRITE_OFFSETS)
    return Span(*map(int, found.groups()))


def read_ranges(texts: Iterable[str]) -> list[Range]:
    """Read offsets that are neither empty nor reversed."""
    spans = [read_span(text) for text in texts]
    for span in spans:
        if span.from_offset >= span.until_offset:
            raise WrongUseError(f"{span}: its end is not after its start.", next_step=advice.WRITE_OFFSETS)
    return [Range(span.partition, span.from_offset, span.until_offset) for span in spans]
