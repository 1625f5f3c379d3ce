"""The fingerprint of the log: a count of records and a sum of their hashes.

The sum does not depend on the order of the records, nor on how they are split into batches. It covers the offset, key
and value of every record of a chunk and is taken while the chunk is staged. Reading the chunk again, by any client,
must give the same fingerprint. It finds accidents of any kind and size. It does not protect against a person who may
write to the ledger.
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

# The hash of null, which differs from that of the empty text. Every factor is odd, so that multiplying loses no
# difference.
NULL = 0x9E3779B97F4A7C15
KEY = np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(slots=True)
class LogFingerprint:
    """The fingerprint of the records added so far."""

    records: int = 0
    hash: int = 0

    def watch(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Pass batches on, and add them to the fingerprint."""
        for batch in batches:
            self.add_batch(batch)
            yield batch

    def add_batch(self, batch: Batch) -> None:
        """Add the records of a batch."""
        self.add(len(batch.offsets), sum_hashes(hash_records(batch.offsets, batch.keys, batch.values)))

    def add(self, records: int, hash_: int) -> None:
        """Add the fingerprint of other records."""
        self.records += records
        self.hash = add_hashes(self.hash, hash_)


def hash_records(offsets: Numbers, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Hashes:
    """Hash records one by one. The offset is a factor, so that two records that change places change the sum."""
    places = offsets.astype(np.uint64) * np.uint64(2) + np.uint64(1)
    hashed: Hashes = places * (hash_values(values) + KEY * hash_values(keys))
    return hashed


def sum_hashes(hashes: Hashes) -> int:
    """Add hashes, as a bigint of PostgreSQL."""
    return _wrap(int(hashes.sum(dtype=np.uint64)))


def add_hashes(one: int, other: int) -> int:
    """Add two sums, modulo 2**64."""
    return _wrap(one + other)


def _wrap(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def hash_values(parts: Sequence[bytes | None]) -> Hashes:
    """Hash values one by one."""
    nulls = parts.count(None)
    if nulls == len(parts):
        return np.full(len(parts), NULL, np.uint64)
    if nulls:
        return np.array([NULL if part is None else xxhash.xxh3_64_intdigest(part) for part in parts], np.uint64)
    return np.fromiter(map(xxhash.xxh3_64_intdigest, parts), np.uint64, len(parts))  # type: ignore[arg-type]
