"""The formats of values and keys that a declaration may name. `records/formats` has a module for each, of its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.declaration.columns import ColumnType, parse_type

ValueFormat = Literal["json", "text", "bytes"]
KeyFormat = Literal["text", "bytes"]


@dataclass(frozen=True, slots=True)
class FormatRow:
    """A format of values: its description in the reference, and an example.

    A format without parts fills one column, of the type `whole`, with the whole value or key. The example of a format
    with parts has an `id` and a `note`.
    """

    meaning: str
    example: bytes
    whole: ColumnType | None = None


FORMATS: dict[ValueFormat, FormatRow] = {
    "json": FormatRow(
        "One JSON document in UTF-8. Each column is the value at its path; a missing value and `null` are null.",
        b'{"id": 7, "note": "first"}',
    ),
    "text": FormatRow(
        "Text in UTF-8. The whole value fills the one column; an empty value is an empty text.",
        b"first",
        parse_type("text"),
    ),
    "bytes": FormatRow("Any bytes. The whole value fills the one column as it is.", b"\xff\x00", parse_type("bytea")),
}
WHOLE_VALUE_TYPES: dict[str, ColumnType] = {name: row.whole for name, row in FORMATS.items() if row.whole}
