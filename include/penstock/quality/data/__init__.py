"""Penstock's own expectations on the data: order, uniqueness, sequence, time and volume, per partition."""

from penstock.quality.data.identity import ExpectBusinessIdUnique, ExpectKeyInOnePartition
from penstock.quality.data.order import ExpectKeyOrderWithinPartition, ExpectSequenceWithoutGaps
from penstock.quality.data.second_reading import ExpectSameWhenReadAgain
from penstock.quality.data.time import ExpectFresh, ExpectRecordTimeNear
from penstock.quality.data.volume import ExpectVolumeAsUsual

__all__ = [
    "ExpectBusinessIdUnique",
    "ExpectFresh",
    "ExpectKeyInOnePartition",
    "ExpectKeyOrderWithinPartition",
    "ExpectRecordTimeNear",
    "ExpectSameWhenReadAgain",
    "ExpectSequenceWithoutGaps",
    "ExpectVolumeAsUsual",
]
