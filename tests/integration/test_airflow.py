"""Loads under a real Airflow, started by its REST API, with a real broker, a real database and real Spark drivers."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import declaring
from fix_airflow import CANARY
from fix_loads import stage_rows
from loading_process import locked
from penstock.backfill.plan import plan_backfill
from penstock.backfill.request import AllGaps, Request
from penstock.decide.rollback import roll_back
from penstock.decide.settle import discard_load
from penstock.declaration.pipeline import read_pipelines
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import pass_checks, read_load
from penstock.load.plan import plan_load
from penstock.load.publish import publish_in
from penstock.model.ranges import Range
from privileges import superuser
from producing import Account

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fix_airflow import AirflowSite
    from fix_kafka import MakeTopic
    from penstock_stack.broker import Broker

pytestmark = pytest.mark.timeout(1200)
COLUMNS = {"id": {"type": "bigint", "required": True}, "amount": {"type": "numeric(12,2)"}}
POSITIVE = {"expect": "expect_column_values_to_be_between", "column": "amount", "min_value": 0}


def produce(kafka: Broker, topic: str, amounts: list[int]) -> None:
    """Send records, and wait until the broker has acknowledged them."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for number, amount in enumerate(amounts):
        producer.produce(topic, json.dumps({"id": number, "amount": amount}))
    assert producer.flush(30) == 0


def declare(airflow: AirflowSite, name: str, topic: str, **more: Any) -> None:
    """Declare a pipeline of the tests; without a schedule it runs by hand only."""
    declared = {"topic": topic, "schedule": None, "value": "json", "columns": COLUMNS, "target": f"airflow.{name}"}
    airflow.write_pipeline(name, **declared | more)


def query(airflow: AirflowSite, statement: str) -> list[tuple[Any, ...]]:
    """Query the database of the loads."""
    with psycopg.connect(airflow.loads) as connection:
        return connection.execute(statement.encode()).fetchall()


def find_line(lines: list[str], text: str) -> str | None:
    """The first line that has a text."""
    return next((line for line in lines if text in line), None)


def find_driver(airflow: AirflowSite) -> psutil.Process | None:
    """Find the JVM of a Spark driver that this Airflow started; its Python process runs already."""
    for pid in airflow.web.pids():
        try:
            process = psutil.Process(pid)
            if process.name() == "java" and process.children():
                return process
        except psutil.NoSuchProcess:
            continue
    return None


@pytest.fixture
def alerts(airflow: AirflowSite) -> Iterator[list[dict[str, Any]]]:
    """A webhook that receives the alerts of the Airflow connection `alerts`, and its messages."""
    messages: list[dict[str, Any]] = []

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Webhook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        target = f"json://127.0.0.1:{server.server_port}/"
        airflow.post("connections", {"connection_id": "alerts", "conn_type": "generic", "password": target})
        yield messages
        airflow.api.delete("connections/alerts").raise_for_status()
        server.shutdown()
        thread.join()


def test_a_run_loads_an_empty_run_skips_and_the_audit_finds_a_changed_row(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, alerts: list[dict[str, Any]]
) -> None:
    topic = make_topic(2)
    produce(kafka, topic, list(range(200)))
    declare(airflow, "hourly", topic, schedule=f"{datetime.now(UTC).minute} * * * *", alerts="alerts")

    [run] = airflow.wait(lambda: airflow.get("dags/hourly/dagRuns")["dag_runs"], 300, "the scheduler starts a run")
    assert run["run_type"] == "scheduled"
    run_id = run["dag_run_id"]
    driver = airflow.wait(lambda: find_driver(airflow), 300, "the driver runs")
    command_lines = airflow.command_lines()
    assert any("spark_jobs/stage.py" in line for line in command_lines), driver
    assert airflow.await_end("hourly", run_id) == "success"
    assert query(airflow, "select count(*), count(distinct id) from airflow.hourly") == [(200, 200)]
    assert "200 rows" in airflow.log("hourly", run_id, "publish")[-2]

    [event] = airflow.events("hourly")
    assert event["extra"]["rows"] == 200
    assert sum(part["until"] - part["from"] for part in event["extra"]["ranges"]) == 200

    tasks = ("dags/penstock_maintenance/tasks/hourly", "dags/penstock_audit/tasks/verify_hourly")
    airflow.wait(lambda: all(airflow.api.get(task).is_success for task in tasks), 300, "both DAGs have their tasks")
    maintained = airflow.trigger("penstock_maintenance")  # both run beside the next steps
    audited = airflow.trigger("penstock_audit", share=1)
    empty, state = airflow.run("hourly")
    skipped = {"stage": "skipped", "validate": "skipped", "publish": "skipped"}
    assert (state, airflow.tasks("hourly", empty)) == ("success", {"plan": "success", **skipped})
    assert any("nothing new" in line for line in airflow.log("hourly", empty, "plan"))

    dates = {"from_date": "2026-01-01T00:00:00Z", "to_date": "2026-01-02T00:00:00Z"}
    refused = airflow.api.post("backfills", json={"dag_id": "hourly", **dates})
    assert refused.is_client_error
    assert "does not allow backfill runs" in refused.text

    airflow.clear("hourly", run_id, "publish")
    assert airflow.await_tries("hourly", run_id, {"publish": 2}) == "success"
    assert any("is published already; it stays" in line for line in airflow.log("hourly", run_id, "publish"))
    airflow.clear("hourly", run_id)
    assert airflow.await_tries("hourly", run_id, {"plan": 2, "publish": 3}) == "success"
    for task, text in {
        "plan": "it is published",
        "stage": "it stays",
        "validate": "it stays",
        "publish": "it stays",
    }.items():
        assert any(text in line for line in airflow.log("hourly", run_id, task)), task
    assert query(airflow, "select count(*), count(distinct id) from airflow.hourly") == [(200, 200)]
    assert query(airflow, "select state, attempt from penstock.loads where pipeline = 'hourly'") == [("published", 1)]
    assert airflow.await_end("penstock_maintenance", maintained) == "success"
    assert any("leaves before: 1, now: 1" in line for line in airflow.log("penstock_maintenance", maintained, "hourly"))
    assert airflow.await_end("penstock_audit", audited) == "success"
    assert set(airflow.tasks("penstock_audit", audited)) == {"verify_hourly", "examine_hourly"}
    assert any("no fault; 200 rows" in line for line in airflow.log("penstock_audit", audited, "verify_hourly"))
    # Shortly after midnight the scheduler starts another run, with another share.
    assert query(airflow, "select chunks_reread > 0 from penstock.verifications where share = 1") == [(True,)]
    assert alerts == []

    secrets = [CANARY, psycopg.conninfo.conninfo_to_dict(airflow.loads)["password"]]
    seen = command_lines + read_all_records(airflow, "hourly", run_id)
    assert not [line for line in seen for secret in secrets if str(secret) in line]

    with psycopg.connect(airflow.loads) as connection:
        connection.execute("update airflow.hourly set amount = 7777 where id = 13")
    succeeded = airflow.successes("penstock_audit")
    run_id, state = airflow.run("penstock_audit", share=0)
    weights = airflow.weights("penstock_audit", run_id)
    longer, shorter = sorted(weights, key=lambda task: succeeded[task])
    assert weights[longer] > weights[shorter], "the task that waited longest goes first"
    assert (state, airflow.tasks("penstock_audit", run_id)["verify_hourly"]) == ("failed", "failed")
    last_line = airflow.log("penstock_audit", run_id, "verify_hourly")[-1]
    assert "changed row: the record in the log gives other values" in last_line
    assert [alert["title"] for alert in alerts] == ["Penstock: hourly did not pass its audit"]


def test_a_held_load_stops_its_pipeline_until_its_approval_with_one_alert_each(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, alerts: list[dict[str, Any]]
) -> None:
    topic = make_topic(1)
    produce(kafka, topic, [1, 2, -3])
    declare(airflow, "checked", topic, checks=[POSITIVE], alerts="alerts")

    held, state = airflow.run("checked")
    assert (state, airflow.tasks("checked", held)["validate"]) == ("failed", "failed")
    assert airflow.tries("checked", held)["validate"] == 1
    [(load,)] = query(airflow, "select load_id from penstock.loads where pipeline = 'checked' and state = 'held'")
    reason = airflow.log("checked", held, "validate")[-1]
    assert "expect_column_values_to_be_between" in reason
    assert f"load {load}" in reason
    assert f"answer the run load_{load} of the DAG penstock_settle, under Required Actions," in reason
    assert query(airflow, "select count(*) from airflow.checked") == [(0,)]

    stopped, state = airflow.run("checked")
    assert (state, airflow.tasks("checked", stopped)["plan"]) == ("failed", "failed")
    assert airflow.tries("checked", stopped)["plan"] == 1
    assert f"answer the run load_{load} of the DAG penstock_settle," in airflow.log("checked", stopped, "plan")[-1]
    assert [alert["title"] for alert in alerts] == [f"Penstock: load {load} of checked is held"]
    assert f"{airflow.web.url}/dags/penstock_settle/runs/load_{load}/tasks/ask/required_actions" in alerts[0]["message"]

    # A changed declaration ends the hold: the next run plans again, and its load is held again.
    declare(airflow, "checked", topic, checks=[POSITIVE | {"min_value": -1}], alerts="alerts")
    airflow.wait(lambda: "min_value = -1" in airflow.get("dags/checked/details")["doc_md"], 300, "Airflow has read it")
    assert airflow.run("checked")[1] == "failed"
    [(again,)] = query(airflow, "select load_id from penstock.loads where pipeline = 'checked' and state = 'held'")
    superseded = f"select state, superseded_by from penstock.loads where load_id = {load}"
    assert query(airflow, superseded) == [("superseded", again)]
    assert airflow.await_end("penstock_settle", f"load_{load}", 90) == "success"
    assert airflow.tasks("penstock_settle", f"load_{load}") == {"ask": "success", "settle": "skipped"}

    settled, state = airflow.run("penstock_settle", load_id=again, decision="approve", why="a refund")
    assert state == "success", airflow.log("penstock_settle", settled, "settle")
    assert query(airflow, "select count(*) from airflow.checked") == [(3,)]
    decided = "select actor, why from penstock.event where what = 'approved'"
    assert query(airflow, decided) == [("admin", "a refund")]
    titles = [alert["title"].removeprefix("Penstock: load ") for alert in alerts]
    assert titles == [
        f"{load} of checked is held",
        f"{load} of checked is no longer held",
        f"{again} of checked is held",
        f"{again} of checked is no longer held",
    ]
    [event] = airflow.events("penstock_settle")
    assert (event["extra"]["pipeline"], event["extra"]["load"]) == ("checked", again)
    assert airflow.await_end("penstock_settle", f"load_{again}", 90) == "success"


def test_a_held_load_asks_a_person_and_so_does_a_held_load_of_a_backfill(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    produce(kafka, topic, [1, 2, -313])
    declare(airflow, "asked", topic, checks=[POSITIVE])
    assert airflow.run("asked")[1] == "failed"
    [(load,)] = query(airflow, "select load_id from penstock.loads where pipeline = 'asked' and state = 'held'")

    asked = airflow.await_request(load)
    assert asked["subject"] == f"Load {load} of asked is held: publish it as it is, or discard it?"
    row = "| `expect_column_values_to_be_between` | error | column amount | element_count 3, missing_count 0, "
    assert f"{row}unexpected_count 1 | partition 0 offset 2 |" in asked["body"]
    assert "| ranges | partition 0 offsets [0, 3) |" in asked["body"]
    assert "313" not in asked["body"]

    airflow.answer(load, "Approve", "  ")
    assert not airflow.await_request(load, times=2)["response_received"]
    assert query(airflow, "select count(*) from airflow.asked") == [(0,)]
    airflow.answer(load, "Approve", "a refund")
    assert airflow.await_end("penstock_settle", f"load_{load}") == "success"
    assert query(airflow, "select count(*) from airflow.asked") == [(3,)]
    decided = f"select what, actor, why from penstock.event where load_id = {load} and what = 'approved'"
    assert query(airflow, decided) == [("approved", "admin", "a refund")]
    [event] = [each for each in airflow.events("penstock_settle") if each["extra"]["load"] == load]
    assert event["extra"]["pipeline"] == "asked"

    # A load of a backfill is held by the same check; its request is discarded.
    roll_back(airflow.loads, load, "ann", "a mistake")
    assert airflow.run("penstock_backfill", pipeline="asked")[1] == "failed"
    [(filling,)] = query(airflow, "select load_id from penstock.loads where pipeline = 'asked' and state = 'held'")
    assert "its pipeline continues." in airflow.await_request(filling)["body"]
    airflow.answer(filling, "Discard", "not now")
    assert airflow.await_end("penstock_settle", f"load_{filling}") == "success"
    discarded = f"select actor, why from penstock.event where load_id = {filling} and what = 'discarded'"
    assert query(airflow, discarded) == [("admin", "not now")]


def test_a_load_that_no_run_of_airflow_held_is_asked_about_until_its_hold_ends(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    produce(kafka, topic, [1, 2])
    declare(airflow, "elsewhere", topic)
    pipeline = read_pipelines(airflow.pipelines)["elsewhere"]
    load = plan_load(airflow.loads, {"bootstrap.servers": kafka.bootstrap}, pipeline, "by hand").load
    assert load is not None
    with psycopg.connect(superuser(airflow.loads)) as connection:
        held = "update penstock.load set state = 'held', cause = 'a check' where load_id = %s"
        connection.execute(held, [load.load_id])

    assert airflow.run("elsewhere")[1] == "failed"
    airflow.await_request(load.load_id)
    run = f"load_{load.load_id}"
    outage = "is not currently accepting connections"
    with psycopg.connect(superuser(airflow.loads), dbname="postgres", autocommit=True) as connection:
        connection.execute("alter database loads_by_airflow allow_connections false")
        logged = airflow.wait(lambda: find_line(airflow.log("penstock_settle", run, "ask"), outage), 60, outage)
        connection.execute("alter database loads_by_airflow allow_connections true")
    assert "The next look is in 20 s." in logged
    discard_load(airflow.loads, load.load_id, "ann", "by the command line")
    assert airflow.await_end("penstock_settle", run, 90) == "success"
    assert airflow.tasks("penstock_settle", run) == {"ask": "success", "settle": "skipped"}


def test_a_lost_log_is_alerted_once_and_a_person_accepts_its_loss(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, alerts: list[dict[str, Any]]
) -> None:
    topic = make_topic(1)
    declare(airflow, "lost", topic, alerts="alerts")
    assert airflow.run("lost")[1] == "success"  # nothing to load, and the ledger gets the position
    produce(kafka, topic, list(range(10)))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 10)]).values()
    deleted.result(30)

    for _ in range(2):
        stopped, state = airflow.run("lost")
        assert (state, airflow.tries("lost", stopped)["plan"]) == ("failed", 1)
        last_line = airflow.log("lost", stopped, "plan")[-1]
        assert "partition 0 offsets [0, 10) are lost" in last_line
        assert "the DAG penstock_accept_loss" in last_line
    assert [alert["title"] for alert in alerts] == ["Penstock: lost is held"]

    accepted, state = airflow.run("penstock_accept_loss", pipeline="lost", why="a test")
    assert state == "success", airflow.log("penstock_accept_loss", accepted, "accept")
    assert query(airflow, "select from_offset, until_offset, actor, why from penstock.losses") == [
        (0, 10, "admin", "a test")
    ]
    assert airflow.run("lost")[1] == "success"
    assert [alert["title"] for alert in alerts] == ["Penstock: lost is held", "Penstock: lost is no longer held"]


def test_loads_are_alerted_at_once_if_their_log_is_lost_while_they_are_staged(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, alerts: list[dict[str, Any]]
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    account.send_orders(20)
    declare(airflow, "losing", account.topic, alerts="alerts")
    pipeline = read_pipelines(airflow.pipelines)["losing"]
    settings = {"bootstrap.servers": kafka.bootstrap}
    assert airflow.run("losing")[1] == "success"
    [(first,)] = query(airflow, "select load_id from penstock.loads where pipeline = 'losing'")
    roll_back(airflow.loads, first, "ann", "a mistake")
    account.send_orders(10)

    # The same runs plan the loads first, so that the log is lost between their plans and their reads.
    live = plan_load(airflow.loads, settings, pipeline, "live").load
    request = Request(AllGaps(), "ann")
    (filling,) = plan_backfill(airflow.loads, settings, pipeline, request, "filling").load_ids
    account.delete_before(25)
    assert live is not None
    for dag, run, load_id, task, offsets in (
        ("losing", "live", live.load_id, "stage", "[20, 25)"),
        ("penstock_backfill", "filling", filling, "load.stage", "[0, 20)"),
    ):
        conf = {"pipeline": "losing"} if dag == "penstock_backfill" else {}
        airflow.await_form(dag, conf)
        airflow.post(f"dags/{dag}/dagRuns", {"dag_run_id": run, "logical_date": None, "conf": conf})
        assert airflow.await_end(dag, run) == "failed"
        assert airflow.tries(dag, run)[task] == 1
        alert = alerts.pop()
        assert alert["title"] == f"Penstock: load {load_id} of losing failed"
        lines = dict(line.split(": ", 1) for line in alert["message"].splitlines())
        assert lines["Reason"].startswith(f"topic {account.topic}: the log of partition 0 starts at offset 25 now")
        assert "Next:" not in lines["Reason"]
        assert lines["What to do"].startswith("start a new run: it stops and says what is lost")
        logged = airflow.log(dag, run, task) if dag == "losing" else []
        assert not logged or logged[-1].startswith(f"losing load {load_id} partition 0 offsets {offsets}: topic")
        assert not [line for line in logged if "penstock-error" in line and "TaskError" not in line]
    assert alerts == []


def test_a_leaf_that_cannot_be_merged_is_alerted_after_the_other_merges(
    airflow: AirflowSite, alerts: list[dict[str, Any]]
) -> None:
    pipeline = declaring.declare("topic", name="merged", target="airflow.merged")
    loads = []
    for at in range(0, 110, 10):
        loads.append(stage_rows(airflow.loads, [Range(0, at, at + 10)], pipeline=pipeline))
        with open_ledger(airflow.loads) as connection:
            pass_checks(connection, read_load(connection, loads[-1]))
            publish_in(connection, loads[-1])
    first = loads[0]
    with psycopg.connect(superuser(airflow.loads)) as connection:
        leaf = f"airflow.merged_load_{first}"
        connection.execute(f"alter table {leaf} drop constraint load_{first}_1_pkey".encode())
        connection.execute(f"insert into {leaf} select * from {leaf} where id = 3".encode())
    declare(airflow, "merged", "topic", columns=declaring.COLUMNS, alerts="alerts", retries=0)
    task = "dags/penstock_maintenance/tasks/merged"
    airflow.wait(lambda: airflow.api.get(task).is_success, 300, "the DAG of the maintenance has the task")

    airflow.run("penstock_maintenance")

    # A scheduler that has just started makes a run of its own, which may be the first.
    runs = [run["dag_run_id"] for run in airflow.get("dags/penstock_maintenance/dagRuns")["dag_runs"]]
    [run_id] = [run for run in runs if airflow.tasks("penstock_maintenance", run).get("merged") == "failed"]
    log = airflow.log("penstock_maintenance", run_id, "merged")
    assert any("leaves before: 11, now: 2" in line for line in log)
    assert f"{leaf} (loads {first} to {first}) cannot be merged: could not create unique index" in log[-1], log
    [alert] = alerts
    assert alert["title"] == "Penstock: merged has partitions that cannot be merged"
    assert leaf in alert["message"]


def test_the_watch_alerts_about_a_pipeline_that_no_run_loads(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, alerts: list[dict[str, Any]]
) -> None:
    yearly = f"0 0 1 {(datetime.now(UTC).month + 5) % 12 + 1} *"
    declare(airflow, "overdue", make_topic(1), schedule=yearly, overdue_intervals=1, alerts="alerts")
    pipeline = read_pipelines(airflow.pipelines)["overdue"]
    plan_load(airflow.loads, {"bootstrap.servers": kafka.bootstrap}, pipeline, "long ago")
    with psycopg.connect(superuser(airflow.loads)) as connection:
        past = "now() - interval '800 days'"
        for change in (
            f"update penstock.pipeline set created_at = {past}, up_to_date_at = {past} where name = 'overdue'",
            f"update penstock.migration set applied_at = {past}",
        ):
            connection.execute(change.encode())

    airflow.api.patch("dags/penstock_notices", json={"is_paused": False}).raise_for_status()
    run, state = airflow.run("penstock_notices")
    airflow.api.patch("dags/penstock_notices", json={"is_paused": True}).raise_for_status()

    assert state == "success", airflow.log("penstock_notices", run, "watch")
    [alert] = [alert for alert in alerts if "overdue" in alert["title"]]
    assert alert["title"] == "Penstock: overdue is overdue"
    assert "no load was published, and no run found the topic loaded, for 800 d" in alert["message"]
    assert "What to do: find out whether its runs start" in alert["message"]


def test_an_error_of_postgresql_is_explained_in_the_log_and_the_alert(
    airflow: AirflowSite, make_topic: MakeTopic, alerts: list[dict[str, Any]]
) -> None:
    declare(airflow, "refused", make_topic(1), alerts="alerts", retries=0)
    with psycopg.connect(superuser(airflow.loads)) as connection:
        connection.execute("alter table penstock.position rename column origin to start")
    try:
        run, state = airflow.run("refused")
    finally:
        with psycopg.connect(superuser(airflow.loads)) as connection:
            connection.execute("alter table penstock.position rename column start to origin")
    assert state == "failed"
    explained = airflow.log("refused", run, "plan")[-1]
    assert explained.startswith('refused: PostgreSQL: column "origin"')
    assert "Next: check the database" in explained
    [alert] = alerts
    assert alert["title"] == "Penstock: a run of refused failed"
    assert "What to do: check the database and the rights of the role in PENSTOCK_DB" in alert["message"]


def test_a_stopped_stage_task_or_dead_driver_is_retried_and_loads_once(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic, alerts: list[dict[str, Any]]
) -> None:
    topic = make_topic(2)
    produce(kafka, topic, list(range(500)))
    declare(airflow, "killed", topic, alerts="alerts")
    # A lock prevents the ledger from recording staged chunks, so that each driver is killed in the middle of its work.
    with locked(airflow.loads, "lock table penstock.stage_task in share mode"):
        run = airflow.trigger("killed")
        airflow.wait(lambda: find_driver(airflow), 300, "the first driver runs")
        airflow.fail("killed", run, "stage")  # as if a person stopped it
        airflow.wait(lambda: not find_driver(airflow), 300, "the driver has ended with its task")
        assert not [line for line in airflow.command_lines() if "spark_jobs/stage.py" in line]

        airflow.clear("killed", run, "stage")
        airflow.wait(lambda: find_driver(airflow), 300, "the second driver runs").kill()
        airflow.wait(lambda: not find_driver(airflow), 300, "the killed driver is gone")

    assert airflow.await_end("killed", run, 240) == "success"
    assert airflow.tries("killed", run) == {"plan": 1, "stage": 3, "validate": 1, "publish": 1}
    second = airflow.log("killed", run, "stage", 2)[-1]
    assert "the Spark driver was killed by signal 9" in second
    assert second.endswith("Airflow tries again.")
    assert query(airflow, "select count(*), count(distinct id) from airflow.killed") == [(500, 500)]
    assert query(airflow, "select state, attempt from penstock.loads where pipeline = 'killed'") == [("published", 3)]
    assert alerts == []


def test_a_failed_run_alerts_once_and_its_log_ends_with_the_reason(
    airflow: AirflowSite, alerts: list[dict[str, Any]]
) -> None:
    declare(airflow, "nowhere", "no_such_topic", alerts="alerts", retries=0)
    run, state = airflow.run("nowhere")
    assert (state, airflow.tries("nowhere", run)["plan"]) == ("failed", 1)
    assert "no_such_topic" in airflow.log("nowhere", run, "plan")[-1]
    assert [alert["title"] for alert in alerts] == ["Penstock: a run of nowhere failed"]

    run, state = airflow.run("nowhere", load=5)
    assert state == "failed"
    assert "this run was given load" in airflow.log("nowhere", run, "plan")[-1]


def test_a_backfill_by_the_form_loads_all_gaps_and_refuses_other_offsets(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    produce(kafka, topic, list(range(200)))
    declare(airflow, "filled", topic)
    assert airflow.run("filled")[1] == "success"
    [(load,)] = query(airflow, "select load_id from penstock.loads where pipeline = 'filled'")
    roll_back(airflow.loads, load, "ann", "a mistake")

    dry, state = airflow.run("penstock_backfill", pipeline="filled", dry_run=True, records_per_load=150)
    assert state == "success"
    lines = airflow.log("penstock_backfill", dry, "plan")
    assert any("would load partition 0 offsets [0, 200)" in line for line in lines)
    assert any("filled: 2 loads, at most 200 records" in line for line in lines)
    assert query(airflow, "select count(*) from penstock.backfills where pipeline = 'filled'") == [(0,)]

    refused, state = airflow.run("penstock_backfill", pipeline="filled", what="offsets", offsets=["0:0-999", "7:0-1"])
    assert state == "failed"
    reason = airflow.log("penstock_backfill", refused, "plan")[-1]
    assert "partition 0 offsets [0, 999): the log ends at 200" in reason
    assert "partition 7 offsets [0, 1): there is no such partition" in reason

    run, state = airflow.run("penstock_backfill", 240, pipeline="filled", records_per_load=150)
    assert state == "success", airflow.tasks("penstock_backfill", run)
    assert query(airflow, "select count(*), count(distinct id) from airflow.filled") == [(200, 200)]
    assert query(
        airflow, "select loads, loads_done, offsets_done, actor from penstock.backfills where pipeline = 'filled'"
    ) == [(2, 2, 200, "admin")]
    events = airflow.events("penstock_backfill")
    assert sorted(event["extra"]["rows"] for event in events) == [50, 150]

    [(last,)] = query(airflow, "select max(load_id) from penstock.loads where pipeline = 'filled'")
    roll_back(airflow.loads, last, "ann", "a mistake")
    settings, pipeline = {"bootstrap.servers": kafka.bootstrap}, read_pipelines(airflow.pipelines)["filled"]
    planned = plan_backfill(airflow.loads, settings, pipeline, Request(AllGaps(), "ann"), "of the command line")
    resumed: dict[str, Any] = {"pipeline": "filled", "resume": planned.backfill_id}
    refused, state = airflow.run("penstock_backfill", **resumed, replace=True)
    assert state == "failed"
    assert "`resume` is given together with replace" in airflow.log("penstock_backfill", refused, "plan")[-1]
    run, state = airflow.run("penstock_backfill", 240, **resumed)
    assert state == "success", airflow.tasks("penstock_backfill", run)
    assert query(airflow, "select count(*), count(distinct id) from airflow.filled") == [(200, 200)]


def test_a_redrive_by_the_form_publishes_the_records_that_pass_now(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    produce(kafka, topic, [1, 2, -3])
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, b"not JSON")
    assert producer.flush(30) == 0
    declare(airflow, "redriven", topic, rules=[{"name": "positive", "where": "amount >= 0"}])
    assert airflow.run("redriven")[1] == "success"
    assert query(airflow, "select count(*) from airflow.redriven") == [(2,)]

    form: dict[str, Any] = {"pipeline": "redriven", "why": "refunds are right"}
    refused, state = airflow.run("penstock_redrive", **form)
    assert (state, airflow.tries("penstock_redrive", refused)["redrive"]) == ("failed", 1)
    assert "no record is chosen" in airflow.log("penstock_redrive", refused, "redrive")[-1]

    declare(airflow, "redriven", topic, rules=[{"name": "positive", "where": "amount >= -10"}])
    dry, state = airflow.run("penstock_redrive", **form, rule="positive", dry_run=True)
    assert state == "success"
    assert find_line(airflow.log("penstock_redrive", dry, "redrive"), "1 of 1 records would pass")
    assert query(airflow, "select count(*) from airflow.redriven") == [(2,)]

    passing = [{"name": "positive", "where": "amount >= -10"}]
    declare(airflow, "redriven", topic, rules=passing, checks=[POSITIVE])
    held, state = airflow.run("penstock_redrive", **form, rule="positive")
    assert (state, airflow.tries("penstock_redrive", held)["redrive"]) == ("failed", 1)
    [(load,)] = query(airflow, "select load_id from penstock.loads where pipeline = 'redriven' and state = 'held'")
    assert f"answer the run load_{load} of" in airflow.log("penstock_redrive", held, "redrive")[-1]
    assert "The records stay in the quarantine." in airflow.await_request(load)["body"]
    airflow.answer(load, "Discard", "not yet")
    assert airflow.await_end("penstock_settle", f"load_{load}") == "success"

    declare(airflow, "redriven", topic, rules=passing)
    run, state = airflow.run("penstock_redrive", **form, everything=True)
    assert state == "success", airflow.log("penstock_redrive", run, "redrive")
    assert find_line(airflow.log("penstock_redrive", run, "redrive"), "1 of 2 records are published")
    assert query(airflow, "select count(*) from airflow.redriven") == [(3,)]
    assert query(airflow, "select reason from penstock.quarantined where pipeline = 'redriven'") == [("bad_json",)]
    [event] = airflow.events("penstock_redrive")
    assert (event["extra"]["pipeline"], event["extra"]["rows"]) == ("redriven", 1)
    decided = "select actor, why from penstock.event where what = 'redriven'"
    assert query(airflow, decided) == [("admin", "refunds are right")]


def test_forms_roll_back_verify_and_drop_in_the_name_of_the_user(
    airflow: AirflowSite, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    produce(kafka, topic, [1, 2, -3])
    declare(airflow, "decided", topic, rules=[{"name": "positive", "where": "amount >= 0"}])
    assert airflow.run("decided")[1] == "success"
    [(load,)] = query(airflow, "select load_id from penstock.loads where pipeline = 'decided'")

    run, state = airflow.run("penstock_rollback", load_id=load, why="a test system")
    assert state == "success", airflow.log("penstock_rollback", run, "roll_back")
    assert find_line(airflow.log("penstock_rollback", run, "roll_back"), f"load {load} is rolled back; gaps now")
    assert query(airflow, "select count(*) from airflow.decided") == [(0,)]
    run, state = airflow.run("penstock_rollback", load_id=load, undo=True, why="it was right")
    assert state == "success", airflow.log("penstock_rollback", run, "roll_back")
    assert query(airflow, "select count(*) from airflow.decided") == [(2,)]
    run, state = airflow.run("penstock_rollback", load_id=load + 1_000, why="no such load")
    assert (state, airflow.tries("penstock_rollback", run)["roll_back"]) == ("failed", 1)
    assert f"there is no load {load + 1_000}" in airflow.log("penstock_rollback", run, "roll_back")[-1]

    run, state = airflow.run("penstock_verify", pipeline="decided")
    assert state == "success", airflow.log("penstock_verify", run, "verify")
    assert find_line(airflow.log("penstock_verify", run, "verify"), "decided: no fault; 2 rows")
    with psycopg.connect(superuser(airflow.loads)) as connection:
        connection.execute("update airflow.decided set amount = 5 where _offset = 1")
    run, state = airflow.run("penstock_verify", pipeline="decided", offsets=["0:1-2"])
    assert (state, airflow.tries("penstock_verify", run)["verify"]) == ("failed", 1)
    assert "partition 0 offsets [1, 2)" in airflow.log("penstock_verify", run, "verify")[-1]

    form: dict[str, Any] = {"pipeline": "decided", "why": "a test order"}
    run, state = airflow.run("penstock_quarantine_drop", **form)
    assert (state, airflow.tries("penstock_quarantine_drop", run)["drop"]) == ("failed", 1)
    assert "no record is chosen" in airflow.log("penstock_quarantine_drop", run, "drop")[-1]
    run, state = airflow.run("penstock_quarantine_drop", **form, rule="positive")
    assert state == "success", airflow.log("penstock_quarantine_drop", run, "drop")
    assert query(airflow, "select value is null from penstock.quarantined where pipeline = 'decided'") == [(True,)]
    decided = (
        f"select actor, what, why from penstock.event where load_id = {load} and actor = 'admin' order by event_id"
    )
    assert query(airflow, decided) == [
        ("admin", "rolled_back", "a test system"),
        ("admin", "rollback undone", "it was right"),
        ("admin", "contents of 1 quarantined records dropped", "a test order"),
    ]
    verified = "select actor, share, faults from penstock.verifications where pipeline = 'decided' order by 3"
    assert query(airflow, verified) == [("admin", 1.0, 0), ("admin", 1.0, 1)]


def test_an_invalid_declaration_is_an_import_error_until_it_is_fixed(
    airflow: AirflowSite, make_topic: MakeTopic
) -> None:
    declare(airflow, "good", make_topic(1))
    path = airflow.pipelines / "broken.yaml"
    path.write_text("name: broken\ntopic: clicks\nvalue: avro\ncolumns: {id: {type: bigint}}\ntarget: airflow.clicks\n")
    [(name, error)] = airflow.wait(lambda: list(airflow.import_errors().items()), 300, "the import error shows")
    assert name == "penstock_broken_declarations.py"
    assert f"{path}:3: value" in error
    assert airflow.run("good")[1] == "success"
    assert not airflow.api.get("dags/broken").is_success
    good = airflow.get("dags/good")
    assert (good["is_stale"], good["has_import_errors"]) == (False, False)

    declare(airflow, "broken", make_topic(1))
    airflow.wait(lambda: not airflow.import_errors(), 300, "the import error is gone")


def test_a_long_topic_and_an_invalid_schedule_leave_the_other_pipelines(
    airflow: AirflowSite, make_topic: MakeTopic
) -> None:
    declare(airflow, "neighbour", make_topic(1))
    never = {"topic": "clicks", "value": "json", "columns": COLUMNS, "target": "airflow.never"}
    path = airflow.pipelines / "never.yaml"
    path.write_text(json.dumps({"name": "never", "schedule": "0 0 30 2 *"} | never))
    declare(airflow, "long_topic", "t" * 249)

    [error] = airflow.wait(lambda: list(airflow.import_errors().values()), 300, "the import error shows")
    assert "'0 0 30 2 *' never runs" in error
    assert "long_topic" not in error
    [tag] = [each["name"] for each in airflow.get("dags/long_topic")["tags"] if each["name"].startswith("ttt")]
    assert len(tag) == 100
    assert airflow.run("neighbour")[1] == "success"
    for name in ("neighbour", "long_topic"):
        found = airflow.get(f"dags/{name}")
        assert (found["is_stale"], found["has_import_errors"]) == (False, False)

    path.unlink()
    airflow.wait(lambda: not airflow.import_errors(), 300, "the import error is gone")


def read_listening_addresses(airflow: AirflowSite) -> set[str]:
    """Find the addresses on which Airflow's processes and their children listen."""
    addresses = set()
    for pid in airflow.web.pids():
        with suppress(psutil.NoSuchProcess):
            found = psutil.Process(pid).net_connections("inet")
            addresses |= {each.laddr.ip for each in found if each.status == psutil.CONN_LISTEN}
    return addresses


def read_all_records(airflow: AirflowSite, dag: str, run: str) -> list[str]:
    """Read all that Airflow keeps of a run: rendered templates, XComs, logs of tasks, and logs of its services."""
    instances = airflow.get(f"dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
    assert {"stage": ["load_id"]}.items() <= {
        each["task_id"]: list(each["rendered_fields"]) for each in instances
    }.items()
    records = [json.dumps(instances)]
    for task in airflow.tasks(dag, run):
        path = f"dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries"
        entries = airflow.get(path)["xcom_entries"]
        records += [json.dumps(airflow.get(f"{path}/{entry['key']}")) for entry in entries]
    logs = [path for path in airflow.web.folder.rglob("*.log") if path.is_file()]
    assert len(logs) > 4
    return records + [line for path in logs for line in path.read_text(errors="replace").splitlines()]


def test_airflow_listens_on_loopback_only_and_keeps_its_data_after_a_kill(
    airflow: AirflowSite, make_topic: MakeTopic
) -> None:
    declare(airflow, "kept", make_topic(1))
    run, _ = airflow.run("kept")
    assert read_listening_addresses(airflow) == {"127.0.0.1"}
    for name in ("passwords.json", "secrets.json", "airflow.cfg"):
        assert (airflow.web.folder / name).stat().st_mode & 0o777 == 0o600, name

    airflow.web.kill()
    assert airflow.web.pids() == []
    airflow.web.start()
    # The token from before the kill is still valid, and the runs are still there.
    assert airflow.get(f"dags/kept/dagRuns/{run}")["state"] == "success"
    assert airflow.run("kept")[1] == "success"
