"""The watch: overdue loads, records about to be deleted and stuck transactions, against a real ledger and broker."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from declaring import declare, write_declaration
from penstock.cli.main import app
from penstock.doctor.commands import Commands
from penstock.doctor.examination import Diagnosis
from penstock.doctor.incidents import see_urgent
from penstock.doctor.transactions import judge_transactions
from penstock.doctor.watch import see_late_run, watch_pipelines
from penstock.errors import KafkaError
from penstock.kafka.batches.open_transactions import OpenTransaction
from penstock.ledger.connection import connect
from penstock.load.plan import plan_load
from privileges import superuser
from receiving import Receiver, refused_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fix_kafka import MakeTopic
    from penstock.declaration.pipeline import Pipeline
    from penstock.errors import PenstockError
    from penstock_stack.broker import Broker

HOUR_MS = 3_600_000


def execute(db: str, statement: str) -> list[Any]:
    with psycopg.connect(superuser(db)) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


class Watched:
    """Pipelines over topics of one broker."""

    def __init__(self, db: str, bootstrap: str) -> None:
        self.db, self.kafka = db, {"bootstrap.servers": bootstrap}

    def plan(self, pipeline: Pipeline) -> None:
        plan_load(self.db, self.kafka, pipeline, f"run {time.monotonic()}")

    def watch(self, *pipelines: Pipeline, others: Mapping[str, str] | None = None) -> list[PenstockError]:
        elsewhere = {"elsewhere": others} if others else {}
        return watch_pipelines(self.db, lambda pipeline: elsewhere.get(pipeline.kafka, self.kafka), pipelines)

    def age(self, hours: float) -> None:
        """Move the past of the ledger back."""
        back = f"- interval '{hours} hours'"
        for change in (
            f"update penstock.pipeline set created_at = created_at {back}, up_to_date_at = up_to_date_at {back}",
            f"update penstock.load set published_at = published_at {back}",
            f"update penstock.migration set applied_at = applied_at {back}",
        ):
            execute(self.db, change)

    def incidents(self) -> list[tuple[str, str, str]]:
        return execute(self.db, "select pipeline, kind, state from penstock.incidents order by 1, incident_id")


@pytest.fixture
def watched(db: str, kafka: Broker) -> Watched:
    return Watched(db, kafka.bootstrap)


def test_a_deadline_counts_from_the_end_of_an_interval_of_the_schedule(watched: Watched, make_topic: MakeTopic) -> None:
    pipeline = declare(make_topic(), schedule="@hourly", deadline="30m")
    watched.plan(pipeline)
    watched.age(1.4)
    watched.watch(pipeline)
    assert watched.incidents() == []
    watched.age(0.2)
    watched.watch(pipeline)
    [(message,)] = execute(watched.db, "select message from penstock.incidents")
    assert re.search(r"for 96(\.\d)? min", message)
    assert "allowed is an interval of @hourly and the deadline of 30m, 90 min" in message


def test_the_time_outside_the_window_does_not_make_a_pipeline_overdue(watched: Watched, make_topic: MakeTopic) -> None:
    pipeline = declare(make_topic(), schedule="@hourly", window="00:00-04:00", overdue_intervals=1)
    plan_load(watched.db, watched.kafka, pipeline, "run", ignore_window=True)
    watched.age(20.9)
    watched.watch(pipeline)
    assert watched.incidents() == []
    watched.age(0.2)
    watched.watch(pipeline)
    [(message,)] = execute(watched.db, "select message from penstock.incidents")
    assert "and the time outside the window 00:00-04:00, 21 h" in message


def test_a_late_run_is_an_incident_unless_its_pipeline_has_loaded_meanwhile(
    watched: Watched, make_topic: MakeTopic
) -> None:
    pipeline = declare(make_topic(), deadline="2h", alerts="oncall")
    watched.plan(pipeline)

    def report(link: str = "http://airflow/runs/1") -> bool:
        with connect(watched.db) as connection:
            return see_late_run(connection, "orders", pipeline.alerts, timedelta(hours=2), "run 1", link)

    watched.age(1.9)
    assert not report()
    watched.age(0.2)
    assert report()
    assert report()
    [(message, seen, link)] = execute(watched.db, "select message, times_seen, link from penstock.incidents")
    assert message.startswith("the run run 1 has not ended within its deadline of 2 h: no load was published")
    assert (seen, link) == (2, "http://airflow/runs/1")
    assert execute(watched.db, "select route from penstock.notices") == [("oncall",)]
    watched.plan(pipeline)
    assert watched.incidents() == [("orders", "overdue_load", "ended")]


def test_a_pipeline_that_no_run_loads_is_overdue_until_a_run_finds_it_loaded(
    watched: Watched, make_topic: MakeTopic
) -> None:
    pipeline = declare(make_topic(), schedule="@hourly", overdue_intervals=2, alerts="oncall")
    never = declare(pipeline.topic, name="never", target="analytics.never", overdue_intervals=None)
    for each in (pipeline, never):
        watched.plan(each)
    watched.age(1.9)
    assert watched.watch(pipeline, never) == []
    assert watched.incidents() == []
    watched.age(0.2)
    for _ in range(3):
        watched.watch(pipeline, never)
    assert watched.incidents() == [("orders", "overdue_load", "open")]
    [(message, next_step, seen)] = execute(watched.db, "select message, next_step, times_seen from penstock.incidents")
    assert "no load was published, and no run found the topic loaded, for 2.1 h" in message
    assert "allowed are 2 intervals of @hourly, 2 h" in message
    assert "`penstock status orders`" in next_step
    assert seen == 3
    watched.plan(pipeline)
    assert watched.incidents() == [("orders", "overdue_load", "ended")]


def test_a_pipeline_that_is_held_or_blocked_is_not_overdue_as_well(watched: Watched, make_topic: MakeTopic) -> None:
    pipeline = declare(make_topic(), schedule="@hourly")
    watched.plan(pipeline)
    watched.age(10)
    execute(
        watched.db,
        """insert into penstock.incident (pipeline, kind, key, severity, message, next_step)
           values ('orders', 'blocked_pipeline', 'log_lost', 'error', 'm', 'n')""",
    )
    watched.watch(pipeline)
    assert watched.incidents() == [("orders", "blocked_pipeline", "open")]


def test_a_backfill_in_trouble_hides_no_overdue_pipeline(
    watched: Watched, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    pipeline = declare(topic, schedule="@hourly")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, b"{}")
    assert producer.flush(30) == 0
    watched.plan(pipeline)
    watched.age(10)
    execute(watched.db, "update penstock.load set kind = 'backfill'")
    execute(
        watched.db,
        """insert into penstock.incident (pipeline, kind, key, severity, message, next_step, load_id)
           select 'orders', 'held_load', 'load ' || load_id, 'error', 'm', 'n', load_id from penstock.load""",
    )
    watched.watch(pipeline)
    assert ("orders", "overdue_load", "open") in watched.incidents()


def test_records_that_are_deleted_before_the_declared_time_are_an_incident(
    watched: Watched, kafka: Broker, make_topic: MakeTopic
) -> None:
    topic = make_topic(retention_ms=str(10 * HOUR_MS))
    pipeline = declare(topic, schedule="@hourly", headroom="8h")
    watched.plan(pipeline)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, b"{}", timestamp=int(time.time() * 1000) - 3 * HOUR_MS)
    assert producer.flush(30) == 0
    assert watched.watch(pipeline) == []
    assert watched.incidents() == [("orders", "retention_headroom", "open")]
    [(message,)] = execute(watched.db, "select message from penstock.incidents")
    assert "h in partition 0: records will be deleted soon" in message
    watched.watch(declare(topic, schedule="@hourly", headroom="6h"))
    assert watched.incidents() == [("orders", "retention_headroom", "ended")]


def test_a_stuck_transaction_is_an_incident_until_it_ends(watched: Watched) -> None:
    pipeline = declare("topic", alerts="oncall")
    now = datetime.now(UTC)
    stuck = OpenTransaction("topic", 0, 10, 60, 7, 0, "payments", now - timedelta(hours=2))
    for found in ([stuck], []):
        finding = judge_transactions(found, now, Commands("localhost:9092", "topic"))
        with connect(watched.db) as connection:
            see_urgent(connection, pipeline, Diagnosis("orders", (finding,), ()))
        state = "open" if found else "ended"
        assert watched.incidents() == [("orders", "stuck_transaction", state)]
    [(message,)] = execute(watched.db, "select message from penstock.incidents")
    assert "holds back 50 offsets of partition 0 from offset 10 on, for 2 h" in message


def test_a_pipeline_that_cannot_be_examined_stops_no_other(
    watched: Watched, kafka: Broker, make_topic: MakeTopic
) -> None:
    away = declare(make_topic(), name="away", target="analytics.away", kafka="elsewhere")
    near = declare(make_topic(retention_ms=str(2 * HOUR_MS)), headroom="90d")
    for each in (away, near):
        watched.plan(each)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(near.topic, b"{}")
    assert producer.flush(30) == 0
    [error] = watched.watch(away, near, others={"bootstrap.servers": f"127.0.0.1:{refused_port()}"})
    assert isinstance(error, KafkaError)
    assert error.pipeline == "away"
    assert watched.incidents() == [("orders", "retention_headroom", "open")]


def test_penstock_watch_finds_and_sends_where_no_airflow_runs(
    watched: Watched, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    write_declaration(tmp_path, topic, schedule="@hourly", alerts="oncall")
    watched.plan(declare(topic, schedule="@hourly", alerts="oncall"))
    watched.age(4)
    with Receiver() as receiver:
        environment = {
            "PENSTOCK_DB": watched.db,
            "PENSTOCK_KAFKA": watched.kafka["bootstrap.servers"],
            "PENSTOCK_PIPELINES": str(tmp_path),
            "PENSTOCK_ALERTS": receiver.url,
        }
        done = [CliRunner().invoke(app, ["watch", "--json"], env=environment) for _ in range(2)]
    documents = [json.loads(each.stdout) for each in done]
    assert documents == [{"open": 1, "sent": 1, "errors": []}, {"open": 1, "sent": 0, "errors": []}]
    assert [message["title"] for message in receiver.messages] == ["Penstock: orders is overdue"]
