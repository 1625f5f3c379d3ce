"""Airflow in a folder of its own, on the loopback address, with its metadata in the stack's PostgreSQL."""

from __future__ import annotations

import json
import os
import shlex
import signal
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil

from penstock.errors import PenstockError
from penstock_stack import ports, processes
from penstock_stack.airflow_environment import REPOSITORY, USER, Site, find_programs, make_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

# Without the flag the scheduler and the triggerer serve their logs on all addresses of the machine. The API server does
# not need it: it reads the files.
WRAPPER = """#!/bin/sh
case "$1" in scheduler|triggerer) exec {program} "$@" --skip-serve-logs ;; esac
exec {program} "$@"
"""
# Requests to this machine must not go through a proxy.
DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
BACKFILL_POOL = "penstock_backfill"
STAGE_POOL = "penstock_stage"
POOLS = (
    (BACKFILL_POOL, 1, "The number of loads of backfills that are staged at the same time."),
    (STAGE_POOL, 4, "The number of loads of all pipelines that are staged at the same time."),
)
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
        checks: str,
        kafka: str,
        spark: str | None = None,
        pipelines: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        named = os.environ.get("PENSTOCK_PIPELINES")
        pipelines = (pipelines or Path(named or REPOSITORY / "include" / "pipelines")).resolve()
        self.folder = folder.resolve()
        self.port = port
        self.url = f"http://{ports.LOOPBACK}:{port}"
        self.log = self.folder / "airflow.log"
        self.user = USER
        self._site = Site(self.folder, self.url, port, database, loads, checks, kafka, spark, pipelines)
        self._extra = dict(environment or {})

    def __repr__(self) -> str:
        return f"Airflow({str(self.folder)!r}, {self.port})"

    def password(self, user: str = USER) -> str:
        """The password of a user, from the file `passwords.json`, which only its owner may read."""
        return str(json.loads(self._site.password_file.read_text(encoding="utf-8"))[user])

    def start(self) -> None:
        """Start Airflow unless it runs, and wait until all its components are healthy."""
        if self.is_running() and self._recovers():
            return
        # After a kill some components may still run, and would continue to schedule tasks.
        self.kill()
        ports.refuse_taken(self.port, self.name, self.option)
        environment = make_environment(self._site) | {"PENSTOCK_STAGE_POOL": STAGE_POOL} | self._extra
        argv = [str(self._wrapper()), "standalone"]
        process = processes.start(argv, log=self.log, folder=self.folder.parent, extra=environment)
        processes.write_record(self._record, process)
        processes.await_start(process, self.is_healthy, 240, self.name, self.log)
        self._open_pools()

    def stop(self, grace: float = 10.0) -> None:
        """Stop all its processes, running tasks too; the next run of a pipeline plans an interrupted load again."""
        # If only the first process gets the signal, the others stay behind: every process gets it.
        for member in self._members():
            with suppress(psutil.NoSuchProcess):
                member.send_signal(signal.SIGTERM)
        with suppress(PenstockError):
            processes.await_condition(lambda: not self._members(), grace, "Airflow stops")
        self.kill()
        self._record.unlink(missing_ok=True)

    def kill(self) -> None:
        """SIGKILL all its processes, as a crash does, and wait until they have ended."""
        while members := self._members():
            processes.kill_all(members)

    def is_running(self) -> bool:
        """Whether it runs and answers; on a busy machine a late heartbeat of a component does not count."""
        return bool(self._members()) and bool(self._ask_health())

    def is_healthy(self) -> bool:
        """Whether every component reports that it is healthy."""
        health = self._ask_health()
        return all((health.get(name) or {}).get("status") == "healthy" for name in COMPONENTS)

    def pids(self) -> list[int]:
        """The ids of all its processes."""
        return [member.pid for member in self._members()]

    def _open_pools(self) -> None:
        """Make the pools of stages, unless they exist: a person may have changed them."""
        with httpx.Client(base_url=self.url, timeout=30, trust_env=False) as client:
            login = {"username": self.user, "password": self.password()}
            token = client.post("/auth/token", json=login).raise_for_status().json()["access_token"]
            for name, slots, description in POOLS:
                pool = {"name": name, "slots": slots, "description": description}
                reply = client.post("/api/v2/pools", json=pool, headers={"Authorization": f"Bearer {token}"})
                if reply.status_code != httpx.codes.CONFLICT:
                    reply.raise_for_status()

    def _ask_health(self) -> dict[str, Any]:
        try:
            with DIRECTLY.open(f"{self.url}/api/v2/monitor/health", timeout=5) as reply:
                return dict(json.load(reply))
        except (OSError, ValueError):
            return {}

    def _recovers(self) -> bool:
        with suppress(PenstockError):
            processes.await_condition(self.is_healthy, 60, "Airflow is healthy")
            return True
        return False

    @property
    def _record(self) -> Path:
        return self.folder / "process.json"

    def _members(self) -> list[psutil.Process]:
        """All processes of its session: tasks have process groups of their own, but stay in the session."""
        process = processes.read_record(self._record)
        return _find_session(process) if process else []

    def _wrapper(self) -> Path:
        path = self.folder / "bin" / "airflow"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(WRAPPER.format(program=shlex.quote(str(find_programs() / "airflow"))), encoding="utf-8")
        path.chmod(0o755)
        return path


def _find_session(leader: processes.Process) -> list[psutil.Process]:
    if _is_foreign(leader):
        return []
    found = []
    for candidate in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(candidate.pid) == leader.pid and candidate.status() != psutil.STATUS_ZOMBIE:
                found.append(candidate)
    return found


def _is_foreign(leader: processes.Process) -> bool:
    """Whether another process has the leader's id now, so that the session of that id is another one too."""
    with suppress(psutil.NoSuchProcess):
        return not processes.is_alive(leader) and psutil.Process(leader.pid).status() != psutil.STATUS_ZOMBIE
    return False
