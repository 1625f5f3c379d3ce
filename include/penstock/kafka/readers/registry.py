"""The readers by the names that a declaration gives them."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.kafka.readers.contract import Reader

# Resolved late: executors of the Spark reader may lack the native reader's Kafka client.
READERS = {
    "native": "penstock.kafka.readers.native:NativeReader",
    "spark": "penstock.kafka.readers.spark:SparkReader",
}


def find_reader(name: str) -> Reader:
    """Find a reader by its name."""
    reader: Reader = resolve_name(READERS[name])()
    return reader
