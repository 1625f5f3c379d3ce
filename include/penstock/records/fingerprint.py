"""Fingerprints: a count and a sum of hashes, the same in whatever order and in whatever pieces they are taken.

That of the log is over the offset, key and value of every record of a chunk, made while the chunk is staged. Whoever
reads the chunk again, by whatever client, has to come to the same. It finds accidents, of any kind and size; it is no
seal against somebody who may write to the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from penstock.model.records import Batch, Numbers

    Hashes = npt.NDArray[np.uint64]

# What stands for null, which is not the empty text. Odd, as every factor here: then no difference is multiplied away.
NULL = 0x9E3779B97F4A7C15
KEY = np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(slots=True)
class LogFingerprint:
    """The fingerprint of the records that went by."""

    records: int = 0
    hash: int = 0

    def watch(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Hand batches on, and take their fingerprint."""
        for batch in batches:
            self.see(batch)
            yield batch

    def see(self, batch: Batch) -> None:
        """Add the records of a batch."""
        self.add(len(batch.offsets), sum_hashes(hash_records(batch.offsets, batch.keys, batch.values)))

    def add(self, records: int, hash_: int) -> None:
        """Add the fingerprint of other records."""
        self.records += records
        self.hash = add_hashes(self.hash, hash_)


def hash_records(offsets: Numbers, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Hashes:
    """Hash records one by one. The offset is a factor: two records that change places change the sum."""
    places = offsets.astype(np.uint64) * np.uint64(2) + np.uint64(1)
    hashed: Hashes = places * (_hash_all(values) + KEY * _hash_all(keys))
    return hashed


def sum_hashes(hashes: Hashes) -> int:
    """Add hashes up, as the bigint that PostgreSQL holds."""
    return _wrap(int(hashes.sum(dtype=np.uint64)))


def add_hashes(one: int, other: int) -> int:
    """Add two sums up; what runs over is dropped."""
    return _wrap(one + other)


def _wrap(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _hash_all(parts: Sequence[bytes | None]) -> Hashes:
    nulls = parts.count(None)
    if nulls == len(parts):
        return np.full(len(parts), NULL, np.uint64)
    if nulls:
        return np.array([NULL if part is None else xxhash.xxh3_64_intdigest(part) for part in parts], np.uint64)
    return np.fromiter(map(xxhash.xxh3_64_intdigest, parts), np.uint64, len(parts))  # type: ignore[arg-type]
