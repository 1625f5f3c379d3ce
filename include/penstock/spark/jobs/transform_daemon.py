"""Python's daemon of a local load with a transform: it imports what its workers need, and they are forks of it."""

from __future__ import annotations

from pyspark.daemon import manager

import penstock.kafka.readers.native
import penstock.load.transform.decode
import penstock.load.transform.write  # noqa: F401

if __name__ == "__main__":
    manager()
