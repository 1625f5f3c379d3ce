"""Values of each format for generated tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from penstock.declaration.formats import FORMATS

if TYPE_CHECKING:
    from penstock.declaration.formats import ValueFormat


@st.composite
def values_of(draw: st.DrawFn, name: ValueFormat) -> bytes:
    """The example of a format with some bytes removed, replaced and added."""
    example = FORMATS[name].example
    at, until = sorted((draw(st.integers(0, len(example))), draw(st.integers(0, len(example)))))
    return example[:at] + draw(st.binary(max_size=4)) + example[until:]
