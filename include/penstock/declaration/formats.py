"""The formats of values and keys that a declaration may name. `records/formats` has a module for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.declaration.columns import ColumnType, parse_type

if TYPE_CHECKING:
    from collections.abc import Mapping

ValueFormat = Literal["json", "text", "bytes"]
KeyFormat = Literal["text", "bytes"]
# A format without parts fills one column with the whole value or key. The column has this type.
WHOLE_VALUE_TYPES: Mapping[str, ColumnType] = {"text": parse_type("text"), "bytes": parse_type("bytea")}
