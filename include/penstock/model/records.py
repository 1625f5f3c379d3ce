"""Batches of records, column by column: the output of the readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]


NO_TIMESTAMP = -1  # Kafka's own value for a record without a timestamp


Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one partition, column by column. Headers are read by index: only rejected records need them."""

    partition: int
    offsets: Numbers
    timestamps: Numbers  # milliseconds since 1970, or NO_TIMESTAMP
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    headers: Callable[[int], Headers]
    # The same records in the memory of librdkafka, if the record path in Rust has read them.
    run: Any = None
