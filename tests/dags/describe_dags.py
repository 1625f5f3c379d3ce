"""Parses a DAG folder as Airflow does, in a process of its own, and writes the result as JSON."""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

HEAVY = ("pyspark", "great_expectations", "pandas", "numpy", "pyarrow", "psycopg", "confluent_kafka", "apprise")


def main() -> None:
    """Describe the DAGs of the given folder."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.serialization.serialized_objects import DagSerialization

    socket.socket.connect = refuse  # type: ignore[method-assign]
    opened: list[str] = []
    sys.addaudithook(lambda event, given: opened.append(Path(str(given[0])).name) if event == "open" else None)
    started = time.monotonic()
    bag = DagBag(sys.argv[1])
    seconds = time.monotonic() - started
    described = {
        "pipelines": sorted({name for name in opened if name.endswith(".yaml")}),
        "seconds": seconds,
        "errors": {Path(path).name: error for path, error in bag.import_errors.items()},
        "heavy": [name for name in HEAVY if name in sys.modules],
        "dags": {
            dag.dag_id: json.loads(json.dumps(DagSerialization.to_dict(dag), default=str)) for dag in bag.dags.values()
        },
    }
    Path(sys.argv[2]).write_text(json.dumps(described), encoding="utf-8")


def refuse(*_: object) -> None:
    """Raise an error: no DAG file may open a connection."""
    raise AssertionError("a DAG file opened a connection while it was parsed")


if __name__ == "__main__":
    main()
