"""Reads Airflow's connections as a task does, in a process of its own, and writes the results as JSON."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.airflow import connections
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Read every connection that a load needs."""
    told: dict[str, object] = {}
    readers: dict[str, Callable[[], object]] = {
        "db": connections.read_db,
        "kafka": partial(connections.read_kafka, "kafka_default"),
        "spark": connections.read_spark_master,
        "alerts": partial(connections.read_alert_urls, "alerts"),
    }
    for name, read in readers.items():
        try:
            told[name] = read()
        except PenstockError as error:
            told[name] = str(error)
    Path(sys.argv[1]).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
