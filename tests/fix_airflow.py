"""A real Airflow for the tests of a module, with pipelines of the tests, used through its REST API."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
import yaml

from penstock.ledger.roles import CHECKER, LOADER, arrange_roles
from penstock.waiting import wait_until
from penstock_stack import ports
from penstock_stack.airflow import Airflow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock_stack.broker import Broker
    from penstock_stack.postgres import Postgres

CANARY = "canary-4711-must-be-nowhere"
ENDED = ("success", "failed")
LOADS = "loads_by_airflow"
# The users beside the administrator, with their roles; the guest may read the DAG of one pipeline.
PEOPLE = {"admin": "admin", "viewer": "viewer", "user": "user", "op": "op", "guest": "viewer"}


@dataclass
class AirflowSite:
    """A running Airflow, and the actions that tests need."""

    web: Airflow
    pipelines: Path
    loads: str = field(repr=False)
    api: httpx.Client = field(repr=False)
    log_start: int  # the log of Airflow holds lines of the modules before
    since: datetime = field(default_factory=partial(datetime.now, UTC))

    def write_pipeline(self, name: str, **declared: Any) -> None:
        """Declare a pipeline, and wait until Airflow has its DAG."""
        (self.pipelines / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, **declared}, sort_keys=False))
        self.wait(lambda: self.api.get(f"dags/{name}").is_success, 300, f"the DAG {name} is there")

    def write_dag(self, name: str, text: str) -> None:
        """Write a DAG file of another team, and wait until Airflow has the DAG."""
        (self.pipelines.parent / "dags" / f"{name}.py").write_text(text, encoding="utf-8")
        self.wait(lambda: self.api.get(f"dags/{name}").is_success, 300, f"the DAG {name} is there")

    def trigger(self, dag: str, **conf: Any) -> str:
        """Start a run by hand, once the form of its DAG knows the pipeline."""
        self.await_form(dag, conf)
        return str(self.post(f"dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})["dag_run_id"])

    def await_form(self, dag: str, conf: dict[str, Any]) -> None:
        """Wait until the form of a DAG knows the pipeline: Airflow reads the file of the DAG again after a while."""
        if "pipeline" in conf:
            self.wait(lambda: conf["pipeline"] in self._offered(dag), 300, f"the form of {dag} has the pipeline")

    def run(self, dag: str, seconds: float = 500, **conf: Any) -> tuple[str, str]:
        """Start a run by hand and follow it to its end; return its id and its state."""
        run = self.trigger(dag, **conf)
        return run, self.await_end(dag, run, seconds)

    def await_end(self, dag: str, run: str, seconds: float = 500) -> str:
        """Wait until a run has ended."""
        return str(self.wait(lambda: self._ended(dag, run), seconds, f"run {run} of {dag} has ended"))

    def await_tries(self, dag: str, run: str, tries: dict[str, int]) -> str:
        """Wait until a cleared run has run its tasks again, and has ended."""
        self.wait(lambda: tries.items() <= self.tries(dag, run).items(), 300, f"{dag} has tried {tries}")
        return self.await_end(dag, run)

    def tasks(self, dag: str, run: str) -> dict[str, str | None]:
        """The state of each task of a run."""
        return {task["task_id"]: task["state"] for task in self._instances(dag, run)}

    def weights(self, dag: str, run: str) -> dict[str, int]:
        """The weight by which the scheduler chose each task of a run."""
        return {task["task_id"]: task["priority_weight"] for task in self._instances(dag, run)}

    def successes(self, dag: str) -> dict[str, str]:
        """When each task of a DAG succeeded last, in any run."""
        found = self.get(f"dags/{dag}/dagRuns/~/taskInstances?state=success&limit=1000")["task_instances"]
        return {task: end for end, task in sorted((each["end_date"], each["task_id"]) for each in found)}

    def tries(self, dag: str, run: str) -> dict[str, int]:
        """How often each task of a run was tried."""
        return {task["task_id"]: task["try_number"] for task in self._instances(dag, run)}

    def log(self, dag: str, run: str, task: str, attempt: int | None = None) -> list[str]:
        """Read the lines of a task's log; of the newest try if no try is named."""
        number = attempt or self.tries(dag, run)[task]
        lines = self.get(f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{number}")["content"]
        return [line["event"] for line in lines if not line["event"].startswith("::")]

    def clear(self, dag: str, run: str, task: str | None = None) -> None:
        """Clear one task of a run with the tasks after it, or the whole run, so that Airflow runs it again."""
        if task is None:
            self.post(f"dags/{dag}/dagRuns/{run}/clear", {"dry_run": False})
        else:
            body = {"dry_run": False, "dag_run_id": run, "task_ids": [task], "only_failed": False}
            self.post(f"dags/{dag}/clearTaskInstances", body | {"include_downstream": True, "reset_dag_runs": True})

    def fail(self, dag: str, run: str, task: str) -> None:
        """Mark a task as failed by hand, which stops it if it runs."""
        body = {"new_state": "failed"}
        self.api.patch(f"dags/{dag}/dagRuns/{run}/taskInstances/{task}", json=body).raise_for_status()

    def request(self, load: int) -> dict[str, Any]:
        """The request to settle a held load, once the run of the load has written it."""
        path = f"dags/penstock_settle/dagRuns/load_{load}/taskInstances/ask/-1/hitlDetails"
        reply = self.wait(lambda: self._found(path), 300, f"a person is asked about load {load}")
        return dict(reply.json())

    def await_request(self, load: int, times: int = 1) -> dict[str, Any]:
        """Wait until the task of a request waits for its first answer, or for a later one.

        The scheduler has to know it too: it takes an answer in the moments before for the failure of the task.
        """
        ended = f"dag_id='penstock_settle', task_id='ask', run_id='load_{load}',"
        parked = f"TaskInstance Finished: dag_id=penstock_settle, task_id=ask, run_id=load_{load},"

        def waits() -> bool:
            lines = self.read_log().splitlines()
            if sum(parked in line and "state=deferred" in line for line in lines) == times:
                return True
            # The scheduler passes over the row of a task that the triggerer has locked, and logs no more about it.
            told = [line for line in lines if "event with state success" in line and ended in line]
            return len(told) == times and self._scheduler_heartbeat() > datetime.fromisoformat(told[-1].split()[2])

        self.wait(waits, 300, f"load_{load} waits for an answer")
        return self.request(load)

    def answer(self, load: int, option: str, why: str) -> None:
        """Answer the request to settle a held load."""
        path = f"dags/penstock_settle/dagRuns/load_{load}/taskInstances/ask/-1/hitlDetails"
        self.api.patch(path, json={"chosen_options": [option], "params_input": {"why": why}}).raise_for_status()

    def events(self, dag: str, scheme: str = "penstock") -> list[dict[str, Any]]:
        """The events of the assets with a scheme that a DAG has updated."""
        found = self.get("assets/events", source_dag_id=dag, timestamp_gte=self.since.isoformat())["asset_events"]
        return [event for event in found if event["uri"].startswith(f"{scheme}://")]

    def command_lines(self) -> list[str]:
        """The command lines of Airflow's processes and their children, which every user of the machine can read."""
        lines = []
        for pid in self.web.pids():
            with suppress(OSError):
                lines.append(Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " "))
        return lines

    def import_errors(self) -> dict[str, str]:
        """The import errors that Airflow shows, by file."""
        return {error["filename"]: error["stack_trace"] for error in self.get("importErrors")["import_errors"]}

    def read_log(self) -> str:
        """The log of Airflow's services since the module began."""
        with self.web.log.open("rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")

    def clear_all(self) -> None:
        """Delete the runs of the modules before, and the DAGs of their pipelines."""
        while runs := self.get("dags/~/dagRuns", limit=100)["dag_runs"]:
            self._delete_runs(runs)
        dags = [dag["dag_id"] for dag in self.get("dags", limit=100, exclude_stale=False)["dags"]]
        for path in (f"dags/{dag}" for dag in dags if not dag.startswith("penstock_")):
            self.wait(partial(self._delete, path), 60, f"{path} is deleted")

    def stop_schedule(self, dag: str) -> None:
        """Pause a DAG once it is there, and delete its runs.

        Airflow runs a new DAG at once in the first tenth of its interval: a daily one between midnight and 02:24.
        """
        self.wait(partial(_pause, self.api, dag), 300, f"{dag} does not interfere")
        self._delete_runs(self.get(f"dags/{dag}/dagRuns")["dag_runs"])

    def get(self, path: str, **query: Any) -> Any:
        """Send a GET request to the REST API."""
        return self.api.get(path, params=query).raise_for_status().json()

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Send a POST request to the REST API."""
        reply = self.api.post(path, json=body)
        assert reply.is_success, reply.text
        return reply.json()

    def wait(self, condition: Callable[[], Any], seconds: float, what: str) -> Any:
        """Wait until a condition returns a true value."""
        found = wait_until(condition, seconds=seconds, every=0.3)
        assert found, f"waited {seconds} s, and this did not happen: {what}"
        return found

    def _scheduler_heartbeat(self) -> datetime:
        """When the scheduler had last ended a round of its work."""
        return datetime.fromisoformat(self.get("monitor/health")["scheduler"]["latest_scheduler_heartbeat"])

    def _delete_runs(self, runs: list[dict[str, Any]]) -> None:
        for path in (f"dags/{run['dag_id']}/dagRuns/{run['dag_run_id']}" for run in runs):
            self.api.patch(path, json={"state": "failed"})  # its tasks end, so that it can be deleted
            self.wait(partial(self._delete, path), 60, f"{path} is deleted")

    def _delete(self, path: str) -> bool:
        return self.api.delete(path).status_code in (204, 404)

    def _found(self, path: str) -> httpx.Response | None:
        reply = self.api.get(path)
        return reply if reply.is_success else None

    def _offered(self, dag: str) -> list[str]:
        return list(self.get(f"dags/{dag}/details")["params"]["pipeline"]["schema"]["enum"])

    def _ended(self, dag: str, run: str) -> str | None:
        state = self.get(f"dags/{dag}/dagRuns/{run}")["state"]
        return state if state in ENDED else None

    def _instances(self, dag: str, run: str) -> list[dict[str, Any]]:
        return list(self.get(f"dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"])


@pytest.fixture(scope="module")
def airflow_settings() -> dict[str, str]:
    """More variables for Airflow's processes; a module with a fixture of this name has its own Airflow."""
    return {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in PEOPLE.items()),
        "PYTHONPATH": str(Path(__file__).parent / "airflow_of_guests"),
    }


class SharedAirflow:
    """The Airflow of this process: a start takes 40 s of two cores, so the modules use it one after the other."""

    def __init__(self, postgres: Postgres, bootstrap: str, folder: Path) -> None:
        self.pipelines = folder / "pipelines"
        self.dags = folder / "dags"
        for made in (self.pipelines, self.dags):
            made.mkdir()
        self._postgres = postgres
        self._bootstrap = bootstrap
        self._settings: dict[str, str] | None = None
        self._web: Airflow | None = None

    def take(self, settings: dict[str, str]) -> Airflow:
        """Give the Airflow with these settings; another one is stopped before."""
        if self._settings != settings:
            self.stop()
        if self._web is None:
            self._web = self._make(settings)
            self._settings = settings
        self._web.start()
        return self._web

    def remove_files(self) -> None:
        """Remove the declarations and the DAG files of a module."""
        for path in (*self.pipelines.iterdir(), *self.dags.glob("*.py")):
            path.unlink()

    def stop(self) -> None:
        """Stop it, and drop its database."""
        if self._web is not None:
            self._web.stop()
            self._web = None
            self._postgres.start()
            self._postgres.drop_database("airflow")

    def _make(self, settings: dict[str, str]) -> Airflow:
        self._postgres.create_login("airflow")
        self._postgres.create_database("airflow")
        self._postgres.give_database("airflow", "airflow")
        [port] = ports.choose(1)
        return Airflow(
            self.pipelines.parent / f"airflow_{port}",
            port,
            database=self._postgres.uri("airflow", "airflow"),
            loads=self._postgres.uri(LOADS, LOADER),
            checks=self._postgres.uri(LOADS, CHECKER),
            kafka=self._bootstrap,
            pipelines=self.pipelines,
            environment=_environment(self._bootstrap, self.dags) | settings,
        )


@pytest.fixture(scope="session")
def _shared_airflow(
    postgres: Postgres, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedAirflow]:
    shared = SharedAirflow(postgres, kafka.bootstrap, tmp_path_factory.mktemp("airflow"))
    try:
        yield shared
    finally:
        shared.stop()


@pytest.fixture(scope="module")
def airflow(
    _shared_airflow: SharedAirflow, postgres: Postgres, _template: str, airflow_settings: dict[str, str]
) -> Iterator[AirflowSite]:
    """Airflow for one module, with a fresh ledger, and without the pipelines and runs of the modules before."""
    with psycopg.connect(postgres.create_database(LOADS, template=_template)) as connection:
        arrange_roles(connection)
    try:
        web = _shared_airflow.take(airflow_settings)
        with httpx.Client(base_url=f"{web.url}/api/v2/", headers=_log_in(web), timeout=60) as api:
            loads = postgres.uri(LOADS, LOADER)
            site = AirflowSite(web, _shared_airflow.pipelines, loads, api, web.log.stat().st_size)
            site.clear_all()
            # They run every few minutes: a test that needs a notice or a sample starts a run by hand.
            for dag in ("penstock_notices", "penstock_sample"):
                site.wait(partial(_pause, api, dag), 300, f"{dag} does not interfere")
            yield site
    finally:
        _shared_airflow.remove_files()
        postgres.start()
        postgres.drop_database(LOADS)


def _pause(api: httpx.Client, dag: str) -> bool:
    return api.patch(f"dags/{dag}", json={"is_paused": True}).is_success


def _environment(bootstrap: str, dags: Path) -> dict[str, str]:
    # Without SASL the password is not used: it is here to show that it never appears in a log.
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap, "sasl.password": CANARY}}
    bundle = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [
        {"name": "dags-folder", "classpath": bundle, "kwargs": {}},
        {"name": "others", "classpath": bundle, "kwargs": {"path": str(dags)}},
    ]
    return {
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }


def _log_in(web: Airflow) -> dict[str, str]:
    reply = httpx.post(f"{web.url}/auth/token", json={"username": web.user, "password": web.password()}, timeout=30)
    return {"Authorization": f"Bearer {reply.raise_for_status().json()['access_token']}"}
