"""Penstock loads Kafka topics into PostgreSQL, batch by batch, exactly once.

The names in `__all__` are the public interface; paths of modules are not. The heavy ones are imported at first use,
because a Spark executor imports this package and needs none of them.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING

# The rooms `load` and `verify` are imported before the functions of these names: a package that is imported later would
# replace the function. `from penstock.load.publish import …` works; `import penstock.load.publish as …` does not.
import penstock.load
import penstock.verify  # noqa: F401 - the comment above says why
from penstock.api import load, verify

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.errors import PenstockError
    from penstock.kafka.readers.data_source import register_source
    from penstock.quality.data import (
        ExpectBusinessIdUnique,
        ExpectFresh,
        ExpectKeyInOnePartition,
        ExpectKeyOrderWithinPartition,
        ExpectRecordTimeNear,
        ExpectSameWhenReadAgain,
        ExpectSequenceWithoutGaps,
        ExpectVolumeAsUsual,
    )
    from penstock.quality.expectations import (
        ExpectOffsetsToBeAccountedFor,
        ExpectOffsetsToBeInPlan,
        ExpectOffsetsToBeUnique,
        ExpectOffsetsToRiseStrictly,
        ExpectPositionToBeFresh,
        ExpectQuarantineToBeInPlan,
    )

__all__ = [
    "ExpectBusinessIdUnique",
    "ExpectFresh",
    "ExpectKeyInOnePartition",
    "ExpectKeyOrderWithinPartition",
    "ExpectOffsetsToBeAccountedFor",
    "ExpectOffsetsToBeInPlan",
    "ExpectOffsetsToBeUnique",
    "ExpectOffsetsToRiseStrictly",
    "ExpectPositionToBeFresh",
    "ExpectQuarantineToBeInPlan",
    "ExpectRecordTimeNear",
    "ExpectSameWhenReadAgain",
    "ExpectSequenceWithoutGaps",
    "ExpectVolumeAsUsual",
    "PenstockError",
    "Pipeline",
    "load",
    "register_source",
    "verify",
]

_HOMES = {
    "Pipeline": "penstock.declaration.pipeline",
    "PenstockError": "penstock.errors",
    "register_source": "penstock.kafka.readers.data_source",
    **dict.fromkeys((name for name in __all__ if name.startswith("Expect")), "penstock.quality.data"),
    **dict.fromkeys(
        (
            "ExpectOffsetsToBeAccountedFor",
            "ExpectOffsetsToBeInPlan",
            "ExpectOffsetsToBeUnique",
            "ExpectOffsetsToRiseStrictly",
            "ExpectPositionToBeFresh",
            "ExpectQuarantineToBeInPlan",
        ),
        "penstock.quality.expectations",
    ),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    return resolve_name(f"{_HOMES[name]}:{name}")
