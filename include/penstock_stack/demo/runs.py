"""Runs of a DAG, started and followed through Airflow's REST API."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from penstock.errors import PenstockError
from penstock.waiting import attempts, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDS = ("success", "failed")
STEPS = ("plan", "stage", "validate", "publish")


@dataclass(frozen=True, slots=True)
class Run:
    """A run at one moment: its state and the state of each of its tasks, in their order."""

    run_id: str
    state: str
    tasks: dict[str, str]


class Airflow:
    """The calls of Airflow's REST API that start a run and follow it."""

    def __init__(self, url: str, passwords: Path) -> None:
        self.url = url
        self.passwords = passwords
        self._client = httpx.Client(base_url=url, timeout=30)

    def log_in(self) -> None:
        """Get a token for the API; later requests use it."""
        [(user, password)] = json.loads(self.passwords.read_text(encoding="utf-8")).items()
        token = self._ask("POST", "/auth/token", {"username": user, "password": password})["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def await_dag(self, dag: str, timeout: float = 120) -> None:
        """Wait until the DAG exists, and unpause it."""

        def is_there() -> bool:
            return self._client.get(f"/api/v2/dags/{dag}").status_code != httpx.codes.NOT_FOUND

        if not wait_until(is_there, seconds=timeout, every=0.5):
            raise PenstockError(f"Airflow has no DAG {dag}.", next_step=f"see the import errors at {self.url}.")
        self._ask("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})

    def trigger(self, dag: str, run_id: str) -> None:
        """Start a run."""
        self._ask("POST", f"/api/v2/dags/{dag}/dagRuns", {"dag_run_id": run_id, "logical_date": None})

    def find_active(self, dag: str) -> str | None:
        """Find the active run of a DAG: soon after the full hour Airflow starts a run by itself."""
        runs = self._ask("GET", f"/api/v2/dags/{dag}/dagRuns?state=queued&state=running&limit=1")["dag_runs"]
        return str(runs[0]["dag_run_id"]) if runs else None

    def follow(self, dag: str, run_id: str, timeout: float = 600) -> Iterator[Run]:
        """Yield the state of a run twice a second, until it has ended."""
        for _ in attempts(seconds=timeout, every=0.5):
            run = self.read_run(dag, run_id)
            yield run
            if run.state in ENDS:
                return
        raise PenstockError(f"run {run_id} has not ended in {timeout:g} s.", next_step=f"look at {self.page(dag)}.")

    def read_run(self, dag: str, run_id: str) -> Run:
        """Read the state of a run and of its tasks."""
        path = f"/api/v2/dags/{dag}/dagRuns/{run_id}"
        tasks = self._ask("GET", f"{path}/taskInstances")["task_instances"]
        tasks.sort(key=lambda task: STEPS.index(task["task_id"]) if task["task_id"] in STEPS else len(STEPS))
        state = self._ask("GET", path)["state"]
        return Run(run_id, state, {task["task_id"]: task["state"] or "waiting" for task in tasks})

    def page(self, dag: str) -> str:
        """The page of a pipeline: the tab Penstock of its DAG."""
        return f"{self.url}/dags/{dag}/plugin/penstock-dag"

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        reply = self._client.request(method, path, json=body)
        if reply.is_error:
            raise PenstockError(
                f"Airflow answered {reply.status_code} to {method} {path}.", next_step="read airflow.log."
            )
        answer: dict[str, Any] = reply.json()
        return answer
