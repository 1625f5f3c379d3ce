"""Values that are UTF-8 text: each fills the one declared column as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.records.columns.conversions import make_conversion
from penstock.records.formats.base import convert_column
from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from penstock.records.formats.base import Field, Rejections

NOT_UTF8 = "bytes that are not UTF-8"


class TextFormat:
    """Reads whole values as text."""

    def __init__(self, fields: Sequence[Field]) -> None:
        (self.field,) = fields
        self.conversion = make_conversion(self.field.type)

    def read_columns(self, values: Sequence[bytes | None], rejections: Rejections) -> list[pa.Array]:
        """Read a batch; bytes that are not UTF-8 are rejected."""
        texts = decode_texts(values, rejections, NOT_UTF8)
        return [convert_column(self.field, self.conversion, texts, rejections)]


make_format = TextFormat


def decode_texts(parts: Sequence[bytes | None], rejections: Rejections, detail: str) -> list[str | None]:
    """Decode values or keys, all at once; if one of them fails, one by one."""
    try:
        return list(map(bytes.decode, parts))  # type: ignore[arg-type]
    except (UnicodeDecodeError, TypeError):
        pass
    texts: list[str | None] = []
    for index, part in enumerate(parts):
        try:
            texts.append(None if part is None else part.decode())
        except UnicodeDecodeError:
            texts.append(None)
            rejections.setdefault(index, Rejection("bad_utf8", detail))
    return texts
