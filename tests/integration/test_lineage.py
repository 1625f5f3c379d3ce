"""The events of OpenLineage about a load, sent to a real HTTP receiver."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest
from typer.testing import CliRunner

from declaring import declare, write_declaration
from fix_loads import stage_rows
from penstock.backfill.request import ByOffsets, Span
from penstock.cli.main import app
from penstock.ledger.connection import open_ledger
from penstock.ledger.load import pass_checks, read_load
from penstock.lineage import emit
from penstock.lineage.emit import emit_lineage
from penstock.lineage.names import name_topic
from penstock.load.publish import publish_load
from penstock.settings import Settings, read_lineage
from privileges import superuser
from producing import Account, order
from receiving import Endpoint, refused_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fix_kafka import MakeTopic
    from fix_loaders import Start
    from fix_loads import Bind
    from penstock_stack.broker import Broker

CANARY = "canary-4711-must-be-nowhere"
CHECKS: list[dict[str, Any]] = [
    {"expect": "expect_column_values_to_be_between", "column": "id", "max_value": 30, "severity": "warning"},
    {"expect": "expect_column_values_to_not_be_null", "column": "note"},
]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """A receiver that the variables of OpenLineage name. Its client adds variables, which are removed again."""
    before = dict(os.environ)
    with Endpoint() as started:
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://{started.address}")
        monkeypatch.setenv("OPENLINEAGE_API_KEY", CANARY)
        yield started
    for name in os.environ.keys() - before.keys():
        monkeypatch.delenv(name)


@pytest.fixture
def published(db: str, bound: Bind) -> tuple[Settings, int]:
    """A published load, and the settings that send its lineage."""
    load_id = stage_rows(db, holes=[(0, 5)], pipeline=declare("topic"))
    with open_ledger(db) as connection:
        pass_checks(connection, read_load(connection, load_id))
    kafka = bound(db) | {"sasl.password": CANARY}
    publish_load(db, kafka, load_id)
    return read_settings(db, kafka), load_id


def read_settings(db: str, kafka: dict[str, str]) -> Settings:
    return Settings(db, kafka, pipelines=None, spark_master="", lineage="factory")  # type: ignore[arg-type]


def read_events(receiver: Endpoint) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in receiver.requests]


def test_the_events_of_a_load_name_topic_table_columns_checks_and_offsets(
    kafka: Broker, start: Start, receiver: Endpoint
) -> None:
    columns = {"id": {"type": "bigint", "path": "$.id"}, "note": {"type": "text", "path": "$['a b'].note"}}
    account, loader = start(2, columns=columns, key="text", checks=CHECKS[:1], description="Orders.")
    account.send_orders(40, partition=0)
    account.transact([order(1)], commit=True, partition=1)
    account.send([b"not JSON"], partition=1)
    load_id = loader.load()

    emit_lineage(replace(loader.settings, lineage="factory"), load_id)

    begun, ended = read_events(receiver)
    info = psycopg.conninfo.conninfo_to_dict(loader.db)
    assert [begun["eventType"], ended["eventType"]] == ["START", "COMPLETE"]
    assert begun["eventTime"] < ended["eventTime"]
    assert begun["run"]["runId"] == ended["run"]["runId"] == str(UUID(ended["run"]["runId"]))
    assert (ended["job"]["namespace"], ended["job"]["name"]) == ("factory", "penstock.orders")
    assert ended["job"]["facets"]["documentation"]["description"] == "Orders."

    [topic], [table] = ended["inputs"], ended["outputs"]
    assert (topic["namespace"], topic["name"]) == (f"kafka://{kafka.bootstrap}", account.topic)
    assert table["name"] == f"{info['dbname']}.analytics.orders"
    assert table["namespace"].startswith("postgres://")
    fields = {field["name"]: field["type"] for field in table["facets"]["schema"]["fields"]}
    assert fields == {
        "id": "bigint", "note": "text", "_load_id": "bigint", "_partition": "integer", "_offset": "bigint",
        "_timestamp": "timestamp with time zone", "_key": "text",
    }  # fmt: skip
    sources = {
        name: [(each["namespace"], each["name"], each["field"]) for each in found["inputFields"]]
        for name, found in table["facets"]["columnLineage"]["fields"].items()
    }
    where = (f"kafka://{kafka.bootstrap}", account.topic)
    assert sources == {
        "id": [(*where, "id")], "note": [(*where, "a b.note")], "_partition": [(*where, "partition")],
        "_offset": [(*where, "offset")], "_timestamp": [(*where, "timestamp")], "_key": [(*where, "key")],
    }  # fmt: skip
    assert {field["name"] for field in topic["facets"]["schema"]["fields"]} == {each[0][2] for each in sources.values()}
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 41
    assert topic["inputFacets"]["inputStatistics"]["rowCount"] == 42

    outcomes = topic["inputFacets"]["dataQualityAssertions"]["assertions"]
    declared = [each for each in outcomes if each["assertion"] == CHECKS[0]["expect"]]
    assert [(each["column"], each["severity"], each["success"]) for each in declared] == [("id", "warn", False)]
    assert all(each["success"] for each in outcomes if each not in declared)
    assert len(outcomes) == len({each["assertion"] for each in outcomes}) > 1

    offsets = ended["run"]["facets"]["penstock_offsets"]
    assert (offsets["load"], offsets["kind"]) == (load_id, "live")
    assert offsets["ranges"] == [
        {"partition": 0, "from": 0, "until": 40, "rows": 40, "quarantined": 0, "holes": 0, "filtered": 0},
        {"partition": 1, "from": 0, "until": 3, "rows": 1, "quarantined": 1, "holes": 1, "filtered": 0},
    ]


def test_the_tables_of_results_are_outputs_with_their_columns(start: Start, receiver: Endpoint) -> None:
    newest = {"table": "analytics.newest", "mode": "upsert", "key": ["id"], "columns": {"remark": "note"}}
    counts = {
        "table": "analytics.counts", "mode": "sql", "key": ["day"], "columns": {"day": "date", "orders": "bigint"},
        "statements": "insert into result as r select current_date, count(*) from added"
        " on conflict (day) do update set orders = r.orders + excluded.orders",
    }  # fmt: skip
    account, loader = start(results=[newest, counts])
    account.send_orders(3)
    loader.load()
    account.send_orders(2, first=3)
    results = [newest, counts, newest | {"table": "analytics.later"}]
    load_id = replace(loader, pipeline=declare(account.topic, results=results)).load()
    # Nobody can read the table of the new result before its rebuild.
    assert loader.query("select state from penstock.result order by 1") == [("current",), ("current",), ("waiting",)]

    emit_lineage(replace(loader.settings, lineage="factory"), load_id)

    ended = read_events(receiver)[-1]
    database = psycopg.conninfo.conninfo_to_dict(loader.db)["dbname"]
    names = [f"{database}.analytics.{table}" for table in ("orders", "newest", "counts")]
    assert [each["name"] for each in ended["outputs"]] == names
    for output in ended["outputs"]:
        _, schema, table = output["name"].split(".")
        described = [(field["name"], field["type"]) for field in output["facets"]["schema"]["fields"]]
        assert sorted(described) == sorted(read_columns(loader.db, schema, table))
    _, upsert, statements = ended["outputs"]
    sources = {
        name: [each["field"] for each in found["inputFields"]]
        for name, found in upsert["facets"]["columnLineage"]["fields"].items()
    }
    assert sources == {
        "id": ["id"], "remark": ["note"], "_partition": ["partition"], "_offset": ["offset"],
        "_timestamp": ["timestamp"],
    }  # fmt: skip
    assert "columnLineage" not in statements["facets"]  # nobody knows what statements do to a column
    assert not any(each.get("outputFacets") for each in (upsert, statements))


def test_a_rollback_its_undo_and_a_replay_send_events_about_the_ranges_that_moved(
    start: Start, receiver: Endpoint
) -> None:
    newest = {"table": "analytics.newest", "mode": "upsert", "key": ["id"]}
    account, loader = start(2, results=[newest])
    account.send_orders(5, partition=0)
    account.send_orders(2, partition=1, first=5)
    load_id = loader.load()
    environment = {"PENSTOCK_DB": loader.db, "PENSTOCK_KAFKA": loader.settings.kafka["bootstrap.servers"]}
    for options in ([], ["--undo"], ["--undo"]):  # the second undo changes nothing
        done = CliRunner().invoke(app, ["rollback", str(load_id), "--why", "a test", *options], env=environment)
        assert done.exit_code == 0, done.output
    [replayed] = loader.backfill(ByOffsets((Span(0, 1, 3),)), replace=True)
    emit_lineage(replace(loader.settings, lineage="default"), replayed)

    events = read_events(receiver)
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"] * 3
    moves, replay = events[:4], events[5]
    assert {event["job"]["name"] for event in moves} == {"penstock.orders.rollback"}
    assert len({event["run"]["runId"] for event in events}) == 3
    assert all(event["inputs"] == [] for event in moves)  # nothing was read from Kafka
    names = {tuple(each["name"].rpartition(".")[2] for each in event["outputs"]) for event in events}
    assert names == {("orders", "newest")}
    assert not any(each.get("outputFacets") for event in moves for each in event["outputs"])
    both = [{"partition": 0, "from": 0, "until": 5}, {"partition": 1, "from": 0, "until": 2}]
    facets = [event["run"]["facets"]["penstock_offsets"] for event in (moves[1], moves[3], replay)]
    told = [(each["load"], each["kind"], each["state"]) for each in facets]
    assert told == [(load_id, "live", "rolled_back"), (load_id, "live", "published"), (replayed, "replay", "published")]
    assert [each["ranges"] for each in facets[:2]] == [both, both]
    assert facets[2]["ranges"] == [
        {"partition": 0, "from": 1, "until": 3, "rows": 2, "quarantined": 0, "holes": 0, "filtered": 0}
    ]
    written = [event["eventTime"] for event in (moves[1], moves[3], replay)]
    assert written == sorted(written)


def read_columns(db: str, schema: str, table: str) -> list[tuple[str, str]]:
    """The columns of a table in PostgreSQL, with their types in its spelling."""
    with psycopg.connect(superuser(db)) as connection:
        return connection.execute(
            "select attname, format_type(atttypid, atttypmod) from pg_attribute"
            " where attrelid = %s::regclass and attnum > 0 and not attisdropped",
            [f"{schema}.{table}"],
        ).fetchall()


def test_a_load_that_is_sent_twice_keeps_its_run(published: tuple[Settings, int], receiver: Endpoint) -> None:
    emit_lineage(*published)
    emit_lineage(*published)

    assert len({event["run"]["runId"] for event in read_events(receiver)}) == 1
    assert len(receiver.requests) == 4


def test_no_secret_is_in_an_event_and_the_api_key_is_in_a_header_only(
    published: tuple[Settings, int], receiver: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    settings, load_id = published
    password = psycopg.conninfo.conninfo_to_dict(settings.db)["password"]

    with caplog.at_level(logging.INFO):
        emit_lineage(settings, load_id)

    for request in receiver.requests:
        assert request.headers["Authorization"] == f"Bearer {CANARY}"
        assert CANARY.encode() not in request.body
        assert str(password).encode() not in request.body
    assert CANARY not in caplog.text


@pytest.mark.parametrize("fault", ["refused", "error", "silence", "configuration"])
def test_a_receiver_that_fails_costs_one_line_in_the_log(
    fault: str,
    published: tuple[Settings, int],
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(emit, "SECONDS", 1.0)
    if fault == "refused":
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://ann:{CANARY}@127.0.0.1:{refused_port()}")
    elif fault == "configuration":
        monkeypatch.setenv("OPENLINEAGE_URL", f"not a URL {CANARY}")
    receiver.status, receiver.wait = (418 if fault == "error" else 200), (600 if fault == "silence" else 0)

    with caplog.at_level(logging.WARNING):
        emit_lineage(*published)

    lines = [each for each in caplog.records if each.name.startswith("penstock")]
    assert [each.getMessage().partition(": ")[0] for each in lines] == [f"no lineage of load {published[1]} was sent"]
    assert fault != "error" or "HTTPError, HTTP status 418" in caplog.text
    assert CANARY not in caplog.text


def test_a_load_that_is_not_published_sends_nothing(db: str, receiver: Endpoint) -> None:
    emit_lineage(read_settings(db, {"bootstrap.servers": "broker:9092"}), stage_rows(db))

    assert receiver.requests == []


def test_the_command_line_sends_the_lineage_of_its_loads(
    db: str, kafka: Broker, make_topic: MakeTopic, tmp_path: Path, receiver: Endpoint
) -> None:
    account = Account(kafka.bootstrap, make_topic(1))
    account.send_orders(3)
    write_declaration(tmp_path, account.topic)
    environment = {"PENSTOCK_DB": db, "PENSTOCK_KAFKA": kafka.bootstrap, "PENSTOCK_PIPELINES": str(tmp_path)}

    done = CliRunner().invoke(app, ["run", "orders"], env=environment)

    assert done.exit_code == 0, done.output
    assert [event["eventType"] for event in read_events(receiver)] == ["START", "COMPLETE"]


@pytest.mark.parametrize(
    ("variables", "namespace"),
    [
        ({}, None),
        ({"OPENLINEAGE_URL": ""}, None),
        ({"OPENLINEAGE_NAMESPACE": "factory"}, None),
        ({"OPENLINEAGE_URL": "http://marquez:5000"}, "default"),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "http", "OPENLINEAGE_NAMESPACE": "factory"}, "factory"),
        ({"OPENLINEAGE_CONFIG": "lineage.yml", "OPENLINEAGE_DISABLED": "True"}, None),
    ],
)
def test_lineage_is_sent_only_if_a_variable_names_a_receiver(variables: dict[str, str], namespace: str | None) -> None:
    assert read_lineage(variables) == namespace


@pytest.mark.parametrize(
    ("servers", "namespace"),
    [
        ("broker-1:9093,broker-2:9093", "kafka://broker-1:9093"),
        (" broker-1 ,broker-2:9093", "kafka://broker-1:9092"),
        ("SASL_SSL://broker-1:9093", "kafka://broker-1:9093"),
        ("[::1]:9093", "kafka://[::1]:9093"),
        ("[::1]", "kafka://[::1]:9092"),
    ],
)
def test_a_topic_is_named_by_the_first_bootstrap_server(servers: str, namespace: str) -> None:
    assert name_topic({"bootstrap.servers": servers}, "orders").namespace == namespace
