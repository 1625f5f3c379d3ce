"""Waiting records start loads under a real Airflow: its triggerer looks, and its scheduler runs the pipeline."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest
import yaml

from fix_airflow import CANARY
from loading_process import locked
from penstock_stack import processes
from penstock_stack.airflow_environment import make_environment
from privileges import superuser
from producing import Account

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fix_airflow import AirflowSite
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker
    from penstock_stack.postgres import Postgres

pytestmark = pytest.mark.timeout(1200)
EACH_HOUR = """
from airflow.sdk import DAG, Asset, PartitionedAssetTimetable, task

with DAG("each_hour", schedule=PartitionedAssetTimetable(assets=Asset("penstock://timed/hours")), catchup=False):

    @task
    def show(dag_run=None):
        print(dag_run.partition_key)

    show()
"""
NEVER = "0 0 29 2 *"
COLUMNS = {"id": {"type": "bigint", "required": True}, "note": {"type": "text"}}


def declare(airflow: AirflowSite, name: str, topic: str, **more: Any) -> None:
    """Declare a pipeline whose schedule does not come during the test."""
    declared = {"topic": topic, "schedule": NEVER, "value": "json", "columns": COLUMNS, "target": f"waiting.{name}"}
    airflow.write_pipeline(name, **declared | more)


def count(airflow: AirflowSite, name: str) -> int:
    """The rows of a pipeline's target; none before its first load."""
    with psycopg.connect(airflow.loads) as connection:
        if connection.execute("select to_regclass(%s) is null", [f"waiting.{name}"]).fetchone() == (True,):
            return 0
        return int((connection.execute(f"select count(*) from waiting.{name}".encode()).fetchone() or [0])[0])


def runs(airflow: AirflowSite, name: str, kind: str) -> list[dict[str, Any]]:
    return [run for run in airflow.get(f"dags/{name}/dagRuns")["dag_runs"] if run["run_type"] == kind]


def incidents(airflow: AirflowSite, name: str, state: str) -> list[tuple[str, str]]:
    query = "select message, link from penstock.incidents where kind = 'overdue_load' and pipeline = %s and state = %s"
    with psycopg.connect(airflow.loads) as connection:
        return connection.execute(query, [name, state]).fetchall()


def find_triggerers(airflow: AirflowSite) -> list[psutil.Process]:
    """The processes of the triggerer, and those that they started."""
    found = []
    for pid in airflow.web.pids():
        try:
            process = psutil.Process(pid)
            if "triggerer" in process.cmdline() or "triggerer" in process.name():
                found += [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    return found


def count_connections(airflow: AirflowSite, kafka: Broker) -> int:
    """The connections of the triggerer to the broker."""
    port = int(kafka.bootstrap.rpartition(":")[2])
    found = 0
    for process in find_triggerers(airflow):
        with suppress(psutil.NoSuchProcess):
            for connection in process.net_connections("inet"):
                found += connection.status == psutil.CONN_ESTABLISHED and connection.raddr.port == port
    return found


def set_paused(airflow: AirflowSite, dag: str, *, paused: bool) -> None:
    airflow.api.patch(f"dags/{dag}", json={"is_paused": paused}).raise_for_status()


def running(airflow: AirflowSite, dag: str) -> list[dict[str, Any]]:
    """The runs of a DAG that have not ended."""
    found = airflow.get(f"dags/{dag}/dagRuns")["dag_runs"]
    return [run for run in found if run["state"] in ("queued", "running")]


@pytest.fixture
def triggerer(airflow: AirflowSite, tmp_path: Path) -> Iterator[list[processes.Process]]:
    """Triggerers that a test starts in place of a killed one."""
    started: list[processes.Process] = []
    yield started
    for process in started:
        for member in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            os.kill(member.pid, signal.SIGKILL)
    airflow.web.kill()  # it has no triggerer: the next module starts it again


def test_waiting_records_start_loads_by_number_and_by_age(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, postgres: Postgres
) -> None:
    many, old = Account(kafka.bootstrap, make_topic(2)), Account(kafka.bootstrap, make_topic())
    declare(airflow, "many", many.topic, load_when={"min_records": 30})
    declare(airflow, "old", old.topic, load_when={"max_wait": "1m"}, schedule=None)
    many.send_orders(30)
    old.send([b'{"id": 1}'], timestamp=int((time.time() - 120) * 1000))
    airflow.wait(lambda: count(airflow, "many") == 30, 300, "the pipeline is woken by the number")
    airflow.wait(lambda: count(airflow, "old") == 1, 300, "the pipeline is woken by the age")
    for name in ("many", "old"):
        assert {run["run_type"] for run in airflow.get(f"dags/{name}/dagRuns")["dag_runs"]} == {"asset_triggered"}
    [event, *_] = airflow.get("assets/events", name_pattern="penstock://many/waiting")["asset_events"]
    assert event["extra"]["payload"] == {"pipeline": "many", "why": "min_records", "waiting": 30}

    # A second backlog wakes it again, although nothing but the triggerer remembers the first.
    many.send_orders(35)
    airflow.wait(lambda: count(airflow, "many") == 65, 300, "the pipeline is woken again")
    with psycopg.connect(postgres.uri("airflow", "airflow")) as connection:
        stored = connection.execute("select classpath, kwargs from trigger").fetchall()
    assert sum(path.endswith(".WaitingRecordsTrigger") for path, _ in stored) >= 2
    assert CANARY not in str(stored)
    assert kafka.bootstrap not in str(stored)
    assert CANARY not in airflow.read_log()


def test_fifty_pipelines_share_one_look_in_the_triggerer_and_outlive_a_dead_broker(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, postgres: Postgres
) -> None:
    quiet, account = make_topic(2), Account(kafka.bootstrap, make_topic(2))
    names = [f"fifty_{number}" for number in range(50)]
    woken = names[-1]
    files = [airflow.pipelines / f"{name}.yaml" for name in names]
    for name, path in zip(names, files, strict=True):
        topic = account.topic if name == woken else quiet
        when = {"schedule": NEVER, "load_when": {"min_records": 1}}
        declared = {"name": name, "topic": topic, "value": "json", "columns": COLUMNS, "target": f"waiting.{name}"}
        path.write_text(yaml.safe_dump(declared | when))

    def count_running() -> bool:
        query = "select count(*) from trigger where classpath like '%WaitingRecordsTrigger' and triggerer_id > 0"
        with psycopg.connect(postgres.uri("airflow", "airflow")) as connection:
            return connection.execute(query).fetchall() >= [(len(names),)]

    try:
        airflow.wait(count_running, 300, "the triggerer runs a trigger for each pipeline")
        airflow.wait(lambda: count_connections(airflow, kafka), 60, "the triggerer looks at the broker")
        before = {process.pid for process in find_triggerers(airflow)}
        kafka.kill()
        try:
            airflow.wait(lambda: "no look at the waiting records" in airflow.read_log(), 120, "a look fails")
        finally:
            kafka.start()
        account.send_orders(5)
        airflow.wait(lambda: count(airflow, woken) == 5, 300, "the pipeline is woken after the outage")
        # A look has two clients, and each has a connection to the bootstrap address and one to the broker.
        assert count_connections(airflow, kafka) <= 4
        assert {process.pid for process in find_triggerers(airflow)} == before
        assert count_running()
        started = airflow.get("dags/~/dagRuns", dag_id_prefix_pattern="fifty_", limit=100)["dag_runs"]
        assert {run["dag_id"] for run in started} == {woken}
        assert CANARY not in airflow.read_log()
    finally:
        for path in files:
            path.unlink()


def test_a_pipeline_whose_dag_is_paused_is_overdue_until_a_run_comes(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    account.send_orders(4)
    declare(airflow, "paused", account.topic, schedule="* * * * *", deadline="10m")
    airflow.wait(lambda: count(airflow, "paused") == 4, 300, "the schedule loads")
    set_paused(airflow, "paused", paused=True)
    # Airflow looks at the last run of a paused DAG once a minute.
    airflow.wait(lambda: not running(airflow, "paused"), 300, "its last run has ended")
    # The time after which a pipeline is overdue has passed: 11 minutes.
    with psycopg.connect(superuser(airflow.loads)) as connection:
        past = "now() - interval '12 minutes'"
        which = "(select pipeline_id from penstock.pipeline where name = 'paused')"
        for change in (
            f"update penstock.pipeline set created_at = {past}, up_to_date_at = {past} where name = 'paused'",
            f"update penstock.load set published_at = {past} where pipeline_id = {which}",
            f"update penstock.migration set applied_at = {past}",
        ):
            connection.execute(change.encode())
    seen = len(airflow.get("dags/paused/dagRuns")["dag_runs"])
    set_paused(airflow, "penstock_notices", paused=False)
    run, state = airflow.run("penstock_notices")
    set_paused(airflow, "penstock_notices", paused=True)
    assert state == "success", airflow.log("penstock_notices", run, "watch")
    [(message, _)] = incidents(airflow, "paused", "open")
    assert "no load was published, and no run found the topic loaded, for 12" in message
    assert "is an interval of * * * * * and the deadline of 10m, 11 min" in message
    assert len(airflow.get("dags/paused/dagRuns")["dag_runs"]) == seen

    set_paused(airflow, "paused", paused=False)
    airflow.wait(lambda: incidents(airflow, "paused", "ended"), 300, "a run of the schedule ends the incident")
    assert incidents(airflow, "paused", "open") == []
    (airflow.pipelines / "paused.yaml").unlink()
    set_paused(airflow, "paused", paused=True)


def test_a_run_that_misses_its_deadline_is_an_incident_until_it_loads(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    declare(airflow, "late", account.topic, schedule=None)
    assert airflow.run("late")[1] == "success"
    declare(airflow, "late", account.topic, deadline="5s", schedule=None)
    versions = "dags/late/dagVersions"
    airflow.wait(lambda: airflow.get(versions)["total_entries"] == 2, 300, "Airflow knows the deadline")
    account.send_orders(4)
    with locked(airflow.loads, "select from penstock.pipeline where name = 'late' for update"):
        run = airflow.trigger("late")
        [(message, link)] = airflow.wait(lambda: incidents(airflow, "late", "open"), 300, "the run is late")
    assert f"the run {run} has not ended within its deadline of 5 s" in message
    assert "/dags/late/runs/" in link
    assert airflow.await_end("late", run) == "success"
    assert count(airflow, "late") == 4
    assert len(incidents(airflow, "late", "ended")) == 1


def test_a_dag_runs_once_for_each_hour_that_is_whole_in_all_partitions(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic(2))
    airflow.write_dag("each_hour", EACH_HOUR)
    declare(airflow, "timed", account.topic, publish_hours=True, schedule=None)
    began = datetime.now(UTC)
    first = (began - timedelta(hours=3)).replace(minute=0, second=0, microsecond=0)
    for hour in range(2):
        moment = first + hour * timedelta(hours=1)
        account.send([b'{"id": 1}'], partition=0, timestamp=int(moment.timestamp() * 1000))
    run, state = airflow.run("timed")
    assert state == "success", airflow.tasks("timed", run)
    ended = datetime.now(UTC)

    wanted = [
        f"{first + hour * timedelta(hours=1):%Y-%m-%dT%H:%M:%S}" for hour in range(3 + (ended.hour != began.hour))
    ]

    def keys() -> list[str]:
        runs = airflow.get("dags/each_hour/dagRuns")["dag_runs"]
        return sorted(run["partition_key"] for run in runs if run["state"] == "success")

    airflow.wait(lambda: len(keys()) >= 3, 300, "each hour has its run")
    assert keys() in (wanted[:3], wanted)
    [event, *_] = airflow.get("assets/events", name_pattern="penstock://timed/hours")["asset_events"]
    assert event["extra"]["since"] == wanted[0]

    if datetime.now(UTC).hour == ended.hour:
        again, state = airflow.run("timed")
        skipped = {"stage": "skipped", "validate": "skipped", "publish": "skipped", "hours": "skipped"}
        assert (state, airflow.tasks("timed", again)) == ("success", {"plan": "success", **skipped})


def test_outside_its_window_a_run_loads_only_if_a_person_ignores_the_window(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    now = datetime.now(UTC)
    closed = f"{now + timedelta(hours=2):%H:%M}-{now + timedelta(hours=3):%H:%M}"
    declare(airflow, "nightly", account.topic, window=closed, schedule=None)
    account.send_orders(4)
    run, state = airflow.run("nightly")
    assert (state, airflow.tasks("nightly", run)["publish"]) == ("success", "skipped")
    assert any("outside the window" in line for line in airflow.log("nightly", run, "plan"))
    assert airflow.run("nightly", ignore_window=True)[1] == "success"
    assert count(airflow, "nightly") == 4


def test_the_schedule_loads_while_the_triggerer_is_dead_and_a_new_one_continues(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, triggerer: list[processes.Process], tmp_path: Path
) -> None:
    account = Account(kafka.bootstrap, make_topic())
    for process in find_triggerers(airflow):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    declare(airflow, "netted", account.topic, load_when={"min_records": 1}, schedule="* * * * *")
    account.send_orders(5)
    airflow.wait(lambda: count(airflow, "netted") == 5, 300, "the schedule loads")
    assert runs(airflow, "netted", "asset_triggered") == []

    site = airflow.web
    extra = make_environment(site._site) | site._extra
    argv = [str(site.folder / "bin" / "airflow"), "triggerer"]
    triggerer.append(processes.start(argv, log=tmp_path / "triggerer.log", folder=tmp_path, extra=extra))
    declare(airflow, "netted", account.topic, load_when={"min_records": 1})
    account.send_orders(3)
    airflow.wait(lambda: count(airflow, "netted") == 8, 300, "a new triggerer wakes the pipeline")
