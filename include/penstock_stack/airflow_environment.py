"""The environment of Airflow's processes: its settings, its secrets and the connections of the stack."""

from __future__ import annotations

import json
import os
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock_stack import ports

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).parents[2]
USER = "admin"
SETTINGS = {
    "CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
    "CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
    "CORE__EXECUTOR": "LocalExecutor",
    "CORE__PARALLELISM": "4",
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
    "API__HOST": ports.LOOPBACK,
    "DAG_PROCESSOR__PARSING_PROCESSES": "1",
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "15",
    "DAG_PROCESSOR__REFRESH_INTERVAL": "15",
    "DAG_PROCESSOR__PRINT_STATS_INTERVAL": "0",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    # After a kill, interrupted tasks are tried again within one or two minutes; by default after five to ten.
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
}


@dataclass(frozen=True, slots=True)
class Site:
    """The settings of one Airflow. The URIs hold passwords, and stay out of the repr."""

    folder: Path
    url: str
    port: int
    database: str = field(repr=False)  # of its metadata
    loads: str = field(repr=False)  # of the ledger and the targets
    checks: str = field(repr=False)  # the same database, as the checks' own role
    kafka: str
    spark: str | None = field(repr=False)  # the address of a Spark server; None if each load starts its own Spark
    pipelines: Path

    @property
    def password_file(self) -> Path:
        """The file with the passwords of Airflow's users, as JSON; only its owner may read it."""
        return self.folder / "passwords.json"


def make_environment(site: Site) -> dict[str, str]:
    """Make the environment of all of Airflow's processes."""
    settings = SETTINGS | _of_this_site(site)
    path = [str(site.folder / "bin"), str(find_programs()), os.environ.get("PATH", os.defpath)]
    return {f"AIRFLOW__{name}": value for name, value in settings.items()} | {
        "AIRFLOW_HOME": str(site.folder),
        "PATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": ports.LOOPBACK,
        "PENSTOCK_PIPELINES": str(site.pipelines),
        **_connections(site),
    }


def find_programs() -> Path:
    """The folder with the programs of this Python. Its link is not followed: it leads out of the environment."""
    return Path(sys.executable).parent


def _of_this_site(site: Site) -> dict[str, str]:
    keys = _read_keys(site)
    metadata = site.database.replace("postgresql://", "postgresql+psycopg://", 1)
    return {
        "CORE__FERNET_KEY": keys["fernet"],
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(site.password_file),
        # Without this URL tasks call port 8080, although the API server has another port.
        "CORE__EXECUTION_API_SERVER_URL": f"{site.url}/execution/",
        "DATABASE__SQL_ALCHEMY_CONN": metadata,
        "DATABASE__SQL_ALCHEMY_CONN_ASYNC": metadata,
        "API__PORT": str(site.port),
        "API__BASE_URL": site.url,
        "API__SECRET_KEY": keys["api"],
        "API_AUTH__JWT_SECRET": keys["jwt"],
    }


def _connections(site: Site) -> dict[str, str]:
    """Connections in the environment: no table of the metadata then holds the stack's passwords."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": site.kafka}}
    return {
        "AIRFLOW_CONN_PENSTOCK_DB": site.loads,
        "AIRFLOW_CONN_PENSTOCK_DB_CHECKER": site.checks,
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(_describe_spark(site)),
    }


def _describe_spark(site: Site) -> dict[str, Any]:
    if site.spark is None:
        return {"conn_type": "spark", "host": "local[*]"}
    address, _, token = site.spark.partition("/;token=")
    host, _, port = address.rpartition(":")
    return {"conn_type": "spark_connect", "host": host, "port": int(port), "password": token}


def _read_keys(site: Site) -> dict[str, str]:
    """The keys of this Airflow. They are made once, so that encrypted and signed data stays valid after a restart."""
    site.folder.mkdir(parents=True, exist_ok=True)
    if not site.password_file.exists():
        _write_secretly(site.password_file, {USER: secrets.token_urlsafe(12)})
    path = site.folder / "secrets.json"
    if not path.exists():
        # A Fernet key is 32 bytes in URL-safe base 64, padding included.
        _write_secretly(path, {name: secrets.token_urlsafe(32) + "=" for name in ("fernet", "api", "jwt")})
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _write_secretly(path: Path, content: Mapping[str, str]) -> None:
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(content, file)
    draft.replace(path)
