"""Records without value as rows: their key columns come from the record's key, and all other columns are null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from penstock.records.formats.json import READ_AS, JsonFormat
from penstock.records.formats.text import NOT_UTF8, decode_texts
from penstock.records.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.records import Batch
    from penstock.records.formats.base import Field, Format, Rejections


@dataclass(frozen=True, slots=True)
class Tombstones:
    """The columns that a record without value fills from its key: paths in a JSON key, or the one text."""

    keys: tuple[Field, ...]
    is_json: bool


class TombstoneReader:
    """Reads the batches that have records without value."""

    def __init__(self, tombstones: Tombstones, fields: Sequence[Field]) -> None:
        self.tombstones = tombstones
        self.format = JsonFormat(tombstones.keys)
        names = [key.name for key in tombstones.keys]
        self.places = [names.index(field.name) if field.name in names else None for field in fields]

    def read_columns(
        self, format_: Format, batch: Batch, values: Sequence[bytes | None], rejections: Rejections
    ) -> list[pa.Array]:
        """Read the values by their format and the keys of the records without value, and join them in their order."""
        without = [index for index, value in enumerate(batch.values) if value is None]
        present = [index for index, value in enumerate(batch.values) if value is not None]
        found: Rejections = {place: rejections[index] for place, index in enumerate(present) if index in rejections}
        columns = format_.read_columns([values[index] for index in present], found)
        _add(rejections, found, present)
        keys = self._read_keys([batch.keys[index] for index in without], rejections, without)
        joined = np.argsort(np.array([*present, *without], np.int64))
        filled, empty = pa.array(joined), pa.array(joined, mask=joined >= len(present))
        return [
            column.take(empty) if place is None else pa.concat_arrays([column, keys[place]]).take(filled)
            for column, place in zip(columns, self.places, strict=True)
        ]

    def _read_keys(
        self, keys: Sequence[bytes | None], rejections: Rejections, indexes: Sequence[int]
    ) -> list[pa.Array]:
        found: Rejections = {
            place: Rejection("null_value", "no value and no key") for place, key in enumerate(keys) if key is None
        }
        wrong: Rejections = {}
        columns = self.format.read_columns(keys if self.tombstones.is_json else self._quote(keys, wrong), wrong)
        for place, rejection in wrong.items():
            found.setdefault(place, Rejection(rejection.reason, f"the key: {rejection.detail}"))
        _add(rejections, found, indexes)
        return columns

    def _quote(self, keys: Sequence[bytes | None], rejections: Rejections) -> list[bytes | None]:
        """Write whole keys as the JSON that their column takes: numbers as they are, anything else as a string."""
        for key in self.tombstones.keys:
            if key.type.family == "bytea":
                return [None if each is None else msgspec.json.encode(each) for each in keys]
            if key.unit is None and (key.type.family == "uuid" or key.type.family not in READ_AS):
                texts = decode_texts(keys, rejections, NOT_UTF8)
                return [None if text is None else msgspec.json.encode(text) for text in texts]
        return list(keys)


def _add(rejections: Rejections, found: Rejections, indexes: Sequence[int]) -> None:
    """Add the rejections of some records, which are known by their place among them."""
    for place, rejection in found.items():
        rejections.setdefault(indexes[place], rejection)
