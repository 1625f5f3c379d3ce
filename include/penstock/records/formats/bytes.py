"""Values that are any bytes: each fills the one declared column as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.records.columns.conversions import make_conversion
from penstock.records.formats.base import convert_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.records.formats.base import Field, Rejections


class BytesFormat:
    """Passes whole values on."""

    def __init__(self, fields: Sequence[Field]) -> None:
        (self.field,) = fields
        self.conversion = make_conversion(self.field.type)

    def read_columns(self, values: Sequence[bytes | None], rejections: Rejections) -> list[pa.Array]:
        """Read a batch; every value is valid."""
        return [convert_column(self.field, self.conversion, values, rejections)]


make_format = BytesFormat
