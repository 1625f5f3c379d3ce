"""Airflow in a folder of its own, on the loopback address, with its metadata in the stack's PostgreSQL."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from penstock.errors import PenstockError
from penstock.stack import ports, processes

if TYPE_CHECKING:
    from collections.abc import Mapping

REPOSITORY = Path(__file__).parents[3]
USER = "admin"
# Without the flag both serve their logs on every address of the machine; here the API reads the files themselves.
WRAPPER = """#!/bin/sh
case "$1" in scheduler|triggerer) exec {program} "$@" --skip-serve-logs ;; esac
exec {program} "$@"
"""
COMPONENTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")


class Airflow:
    """`airflow standalone`: its home, its secrets and its logs are in `folder`."""

    name = "Airflow"
    option = "--airflow-port"

    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        database: str,
        loads: str,
        kafka: str,
        pipelines: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.port = port
        self.url = f"http://{ports.LOOPBACK}:{port}"
        self.log = self.folder / "airflow.log"
        named = os.environ.get("PENSTOCK_PIPELINES")
        self.pipelines = (pipelines or Path(named or REPOSITORY / "include" / "pipelines")).resolve()
        self._database = database
        self._loads = loads
        self._kafka = kafka
        self._extra = dict(environment or {})

    def __repr__(self) -> str:
        return f"Airflow({str(self.folder)!r}, {self.port})"

    @property
    def password_file(self) -> Path:
        """The file with the password of `admin`, as JSON; only its owner may read it."""
        return self.folder / "passwords.json"

    def password(self) -> str:
        """The password of `admin`."""
        return str(json.loads(self.password_file.read_text(encoding="utf-8"))[USER])

    def start(self) -> None:
        """Start Airflow unless it runs, and wait until all its parts are healthy."""
        if self.is_running():
            return
        # After a kill some of its parts may have outlived the rest, and would go on scheduling.
        self.kill()
        ports.refuse_taken(self.port, self.name, self.option)
        environment = self._environment()
        process = processes.start(
            [str(self._wrapper()), "standalone"], log=self.log, folder=self.folder.parent, extra=environment
        )
        processes.write_record(self._record, process)
        processes.await_start(process, self.is_healthy, 240, self.name, self.log)

    def stop(self, grace: float = 10.0) -> None:
        """Stop all its processes, running tasks too: a load that was under way is planned anew by its next run."""
        # Its parts leave each other behind when only the first is told, so all are told.
        for member in self._members():
            with suppress(psutil.NoSuchProcess):
                member.send_signal(signal.SIGTERM)
        with suppress(PenstockError):
            processes.await_condition(lambda: not self._members(), grace, "Airflow stops")
        self.kill()
        self._record.unlink(missing_ok=True)

    def kill(self) -> None:
        """SIGKILL all its processes, as a crash does, and wait until they are gone."""
        while members := self._members():
            processes.kill_all(members)

    def is_running(self) -> bool:
        """Whether it runs and is healthy."""
        return bool(self._members()) and self.is_healthy()

    def is_healthy(self) -> bool:
        """Whether every part of it says that it is well."""
        try:
            with urllib.request.urlopen(f"{self.url}/api/v2/monitor/health", timeout=5) as reply:  # noqa: S310
                told = json.load(reply)
        except (OSError, ValueError):
            return False
        return all((told.get(name) or {}).get("status") == "healthy" for name in COMPONENTS)

    def pids(self) -> list[int]:
        """The ids of all its processes."""
        return [member.pid for member in self._members()]

    @property
    def _record(self) -> Path:
        return self.folder / "process.json"

    def _members(self) -> list[psutil.Process]:
        """All processes of its session: tasks move to groups of their own, and none leaves the session."""
        process = processes.read_record(self._record)
        return _find_session(process) if process else []

    def _wrapper(self) -> Path:
        path = self.folder / "bin" / "airflow"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(WRAPPER.format(program=_programs() / "airflow"), encoding="utf-8")
        path.chmod(0o755)
        return path

    def _environment(self) -> dict[str, str]:
        secret = self._read_secrets()
        metadata = self._database.replace("postgresql://", "postgresql+psycopg://", 1)
        options = {
            "CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
            "CORE__PLUGINS_FOLDER": str(REPOSITORY / "plugins"),
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "4",
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__FERNET_KEY": secret["fernet"],
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.password_file),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "DATABASE__SQL_ALCHEMY_CONN": metadata,
            "DATABASE__SQL_ALCHEMY_CONN_ASYNC": metadata,
            "API__HOST": ports.LOOPBACK,
            "API__PORT": str(self.port),
            "API__BASE_URL": self.url,
            "API__SECRET_KEY": secret["api"],
            "API_AUTH__JWT_SECRET": secret["jwt"],
            "DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "15",
            "DAG_PROCESSOR__REFRESH_INTERVAL": "15",
            "DAG_PROCESSOR__PRINT_STATS_INTERVAL": "0",
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            # After a kill, what ran then is tried again within a minute or two, and not after five or ten.
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
            "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
            "LOGGING__LOGGING_LEVEL": "INFO",
        }
        return {f"AIRFLOW__{name}": value for name, value in options.items()} | {
            "AIRFLOW_HOME": str(self.folder),
            "PATH": os.pathsep.join([str(self.folder / "bin"), str(_programs()), os.environ.get("PATH", "")]),
            "PYTHONUNBUFFERED": "1",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": ports.LOOPBACK,
            "PENSTOCK_PIPELINES": str(self.pipelines),
            **self._connections(),
            **self._extra,
        }

    def _connections(self) -> dict[str, str]:
        """Connections by the environment: a password of the stack then is in no table of the metadata."""
        return {
            "AIRFLOW_CONN_PENSTOCK_DB": self._loads,
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(
                {"conn_type": "kafka", "extra": {"bootstrap.servers": self._kafka}}
            ),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
        }

    def _read_secrets(self) -> dict[str, str]:
        """The keys of this Airflow, made once: what it encrypted or signed stays valid after a restart."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.password_file.exists():
            _write_secretly(self.password_file, {USER: secrets.token_urlsafe(12)})
        path = self.folder / "secrets.json"
        if not path.exists():
            _write_secretly(path, {name: secrets.token_urlsafe(32) + "=" for name in ("fernet", "api", "jwt")})
        return dict(json.loads(path.read_text(encoding="utf-8")))


def _find_session(leader: processes.Process) -> list[psutil.Process]:
    if not processes.is_alive(leader) and psutil.pid_exists(leader.pid) and not _is_zombie(psutil.Process(leader.pid)):
        return []  # the id belongs to somebody else now, and so does the session of that id
    found = []
    for candidate in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(candidate.pid) == leader.pid and not _is_zombie(candidate):
                found.append(candidate)
    return found


def _is_zombie(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def _write_secretly(path: Path, content: Mapping[str, str]) -> None:
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(content, file)
    draft.replace(path)


def _programs() -> Path:
    """Where the programs of this environment are: not resolved, for a link out of it would lead elsewhere."""
    return Path(sys.executable).parent
