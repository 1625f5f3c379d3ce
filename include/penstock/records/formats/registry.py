"""Finding the module of a value format, by the name that the key `value:` of a declaration takes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.declaration.formats import ValueFormat
    from penstock.records.formats.base import Field, Format


def make_format(name: ValueFormat, fields: Sequence[Field]) -> Format:
    """Make the format of a load, from its declared columns."""
    made: Format = import_module(f"penstock.records.formats.{name}").make_format(fields)
    return made
