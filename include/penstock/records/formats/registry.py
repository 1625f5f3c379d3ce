"""The registry of value formats, by the names that the key `value:` of a declaration takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.records.formats.bytes import BytesFormat
from penstock.records.formats.json import JsonFormat
from penstock.records.formats.text import TextFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.declaration.formats import ValueFormat
    from penstock.records.formats.base import Field, Format

FORMATS: dict[ValueFormat, Callable[[Sequence[Field]], Format]] = {
    "json": JsonFormat,
    "text": TextFormat,
    "bytes": BytesFormat,
}
