"""The interface of a value format: a batch of values becomes one Arrow column for each declared column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.declaration.columns import ColumnType
    from penstock.records.columns.conversions import Conversion

# By the index of the value in its batch. The first rejection of a value is the one that counts: add with `setdefault`.
Rejections: TypeAlias = dict[int, Rejection]


@dataclass(frozen=True, slots=True)
class Field:
    """The part of a declared column that decoding needs."""

    name: str
    type: ColumnType
    path: tuple[str, ...]
    required: bool = False
    unit: str | None = None


class Format(Protocol):
    """Reads the values of a batch. A format is made once a load, from the declared columns."""

    def read_columns(self, values: Sequence[bytes | None], rejections: Rejections) -> list[pa.Array]:
        """Read a batch into one array for each declared column, with one entry for each value.

        A value that is None was rejected before; its entries are null. A value that the format rejects is added to
        `rejections`; its entries may be anything, because the decoder leaves the row out.
        """
        ...


def convert_column(field: Field, conversion: Conversion, values: Sequence[Any], rejections: Rejections) -> pa.Array:
    """Convert the values of one declared column; reject those that it cannot hold, and null where it is required."""
    array, found = conversion.convert_all(values)
    for index, rejection in found.items():
        rejections.setdefault(index, Rejection(rejection.reason, f"column {field.name}: {rejection.detail}"))
    if field.required and array.null_count > len(found):
        for index, valid in enumerate(array.is_valid().to_pylist()):
            if not valid:
                rejections.setdefault(
                    index, Rejection("missing_required", f"column {field.name}: null, and it is required")
                )
    return array
