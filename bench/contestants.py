"""The contestants: the command of each, the preparation of its database, and the table of its rows."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psycopg
import yaml
from psycopg.conninfo import conninfo_to_dict

from bench.records import PIPELINE, describe_pipeline
from penstock.errors import WrongUseError
from penstock.ledger.connection import migrate
from penstock.spark.submit import find_spark_submit
from penstock_stack.jars import find_jars

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
PEER_PYTHON = PROJECT / ".venv-bench" / "bin" / "python"
PEER_COLUMNS = (
    "id bigint, customer bigint, country text, amount numeric(12,2), currency text, placed timestamptz, note text"
)
SPARK_CONF = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class Contestant:
    """A tool or a limit that is measured. A limit may write no table."""

    name: str
    title: str
    kind: Literal["penstock", "peer", "limit"]
    command: Callable[[], list[str]]
    prepare: Callable[[str], object]
    table: str | None
    numbered: bool = True  # the ids of its rows are those of the records, each once
    keeps_spark: bool = False  # it stages by a Spark server that runs already


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a run: database, broker, topic and folder."""

    db: str
    kafka: str
    topic: str
    records: int
    folder: Path
    spark_master: str = "local[*]"

    def environment(self) -> dict[str, str]:
        """The environment of every contestant."""
        to = conninfo_to_dict(self.db)
        return {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "BENCH_DB": self.db,
            "BENCH_JDBC": (
                f"jdbc:postgresql://{to['host']}:{to['port']}/{to['dbname']}?user={to['user']}&password={to['password']}"
            ),
            "BENCH_KAFKA": self.kafka,
            "BENCH_TOPIC": self.topic,
            "BENCH_RECORDS": str(self.records),
            "PENSTOCK_DB": self.db,
            "PENSTOCK_KAFKA": self.kafka,
            "PENSTOCK_PIPELINES": str(self.write_declaration()),
            "PENSTOCK_SPARK_MASTER": self.spark_master,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "RUNTIME__DLTHUB_TELEMETRY": "false",
            "RUNTIME__LOG_LEVEL": "ERROR",
            # Files of a size that dlt's own threads load side by side.
            "DATA_WRITER__FILE_MAX_ITEMS": "500000",
        }

    def write_declaration(self) -> Path:
        """Penstock's declaration; returns its folder."""
        folder = self.folder / "pipelines"
        folder.mkdir(parents=True, exist_ok=True)
        described = yaml.safe_dump(describe_pipeline(self.topic, self.records), sort_keys=False)
        (folder / f"{PIPELINE}.yaml").write_text(described, encoding="utf-8")
        return folder


def _run_limit(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"bench.limits.{name}"]


def submit_spark(mode: str) -> list[str]:
    """The command of the peer Spark."""
    jars = ",".join(str(jar) for use in ("spark", "bench") for jar in find_jars(use))
    conf = [word for name, value in SPARK_CONF.items() for word in ("--conf", f"{name}={value}")]
    script = str(HERE / "peers" / "spark_jdbc.py")
    return [str(find_spark_submit()), "--master", "local[*]", "--jars", jars, *conf, script, mode]


def _run_dlt() -> list[str]:
    if not PEER_PYTHON.exists():
        raise WrongUseError("dlt's environment is missing.", next_step="start the benchmark by `make bench`.")
    return [str(PEER_PYTHON), str(HERE / "peers" / "dlt_arrow.py")]


def _prepare_ledger(db: str) -> None:
    migrate(db)
    with psycopg.connect(db, autocommit=True) as connection:
        # Penstock sends a few hundred statements: their times give the duration of each phase.
        connection.execute("alter database bench set log_min_duration_statement = 0")


def _prepare_nothing(_db: str) -> None:
    pass


def _prepare_keyed(db: str) -> None:
    with psycopg.connect(db) as connection:
        connection.execute("create schema peer")
        connection.execute(
            f'create table peer.records ({PEER_COLUMNS}, partition int, "offset" bigint, "timestamp" timestamptz,'
            ' primary key (partition, "offset"))'
        )


def _prepare_bare(db: str) -> None:
    with psycopg.connect(db) as connection:
        connection.execute("create schema peer")
        connection.execute(
            f"create table peer.copied ({PEER_COLUMNS}, _load_id bigint, _partition int, _offset bigint,"
            " _timestamp timestamptz)"
        )


def _run_penstock() -> list[str]:
    return [str(Path(sys.executable).parent / "penstock"), "run", PIPELINE, "--json"]


def _in_python(command: Callable[[], list[str]]) -> Callable[[], list[str]]:
    """The same command, with the record path in Python."""
    return lambda: ["env", "PENSTOCK_RUST=off", *command()]


def _run_spark() -> list[str]:
    return submit_spark("batch")


def _run_streaming() -> list[str]:
    return submit_spark("stream")


RECORDS = "peer.records"
STAGED = "penstock_stage.load_1_1"
CONTESTANTS = (
    Contestant("penstock", "Penstock", "penstock", _run_penstock, _prepare_ledger, f"analytics.{PIPELINE}"),
    Contestant(
        "python_path",
        "Penstock, the path in Python",
        "penstock",
        _in_python(_run_penstock),
        _prepare_ledger,
        f"analytics.{PIPELINE}",
    ),
    Contestant(
        "penstock_kept",
        "Penstock, kept Spark",
        "penstock",
        _run_penstock,
        _prepare_ledger,
        f"analytics.{PIPELINE}",
        keeps_spark=True,
    ),
    Contestant("spark_jdbc", "Spark, JDBC append", "peer", _run_spark, _prepare_keyed, RECORDS),
    Contestant("streaming", "Structured Streaming, JDBC append", "peer", _run_streaming, _prepare_keyed, RECORDS),
    Contestant("dlt", "dlt, Arrow", "peer", _run_dlt, _prepare_nothing, RECORDS),
    Contestant("reading", "limit: reading only", "limit", _run_limit("reading"), _prepare_nothing, None),
    Contestant("plain", "limit: read, decode, COPY", "limit", _run_limit("plain"), migrate, STAGED),
    Contestant("plain_python", "limit: the same in Python", "limit", _in_python(_run_limit("plain")), migrate, STAGED),
    Contestant(
        "copying", "limit: COPY only", "limit", _run_limit("copying"), _prepare_bare, "peer.copied", numbered=False
    ),
)
