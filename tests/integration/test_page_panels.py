"""The panels of the page over a ledger with real loads: the figures are those of the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import psycopg
import pytest
from typer.testing import CliRunner

from declaring import write_declaration
from penstock.airflow.page.backfill import describe_preview
from penstock.airflow.page.coverage import describe_coverage
from penstock.airflow.page.loads import describe_load, describe_loads
from penstock.airflow.page.overview import describe_pipeline, describe_pipelines
from penstock.airflow.page.panels import (
    describe_backfills,
    describe_events,
    describe_incidents,
    describe_quality,
    describe_quarantine,
    describe_records,
    describe_results,
)
from penstock.backfill.request import AllGaps, ByOffsets, Span
from penstock.cli.main import app
from penstock.decide.rollback import roll_back
from penstock.errors import WrongUseError
from penstock.ledger.connection import open_for_reading, open_ledger
from penstock.ledger.incident import claim_notices, finish_notices, postpone_notices
from penstock.ledger.pipeline import find_pipeline
from penstock.load.validate import validate_load
from penstock.model.coverage_map import Kind
from penstock.status.sampler import sample_pipelines
from privileges import superuser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fix_loaders import Start
    from penstock.airflow.page.documents import Axis
    from penstock.ledger.connection import Connection
    from producing import Account
    from whole_loads import Loader

COLUMNS = {"id": {"type": "bigint", "required": True}, "amount": {"type": "integer"}}
EXPECTATION = "expect_column_values_to_be_between"
DECLARED: dict[str, Any] = {
    "columns": COLUMNS,
    "checks": [{"expect": EXPECTATION, "column": "amount", "max_value": 1000}],
    "rules": [{"name": "positive", "where": "amount >= 0"}],
    "alerts": "shop",
}
SECRET = b"key of the server"
CANARY = "canary-4711"


@pytest.fixture
def loaded(start: Start) -> tuple[Account, Loader]:
    """Loads of all fates: published, rolled back, replayed, held, and records that wait."""
    account, loader = start(3, **DECLARED)
    account.send(_values(0, 60), partition=0)
    account.send(_values(60, 80), partition=1)
    loader.load()
    account.send([*_values(80, 90), CANARY.encode(), b'{"id": 1, "amount": -5}'], partition=0, key=CANARY.encode())
    account.transact(_values(90, 95), commit=False, partition=0)
    loader.load()
    account.send(_values(95, 120), partition=0)
    account.send(_values(120, 130), partition=1)
    rolled_back = loader.load()
    roll_back(loader.db, rolled_back, "ann", "wrong prices")
    loader.backfill(ByOffsets((Span(0, 10, 20),)), replace=True)
    account.send([b'{"id": 7, "amount": 471100815}'], partition=2)
    held = loader.plan()
    assert held is not None
    loader.stage_rows(held.load_id)
    assert not validate_load(loader.db, held.load_id, None, loader.settings.kafka).passed
    account.send(_values(130, 140), partition=1)
    sample_pipelines(loader.db, lambda _: loader.settings.kafka, [loader.pipeline])
    return account, loader


def _values(first: int, until: int) -> list[bytes]:
    return [json.dumps({"id": number, "amount": number}).encode() for number in range(first, until)]


@pytest.fixture
def reading(loaded: tuple[Account, Loader]) -> Iterator[tuple[Connection, int]]:
    """A connection that can only read, and the number of the pipeline."""
    with open_for_reading(loaded[1].db) as connection:
        pipeline_id = find_pipeline(connection, "orders")
        assert pipeline_id is not None
        yield connection, pipeline_id


def _run(loader: Loader, folder: Path, *command: str) -> Any:
    write_declaration(folder, loader.pipeline.topic, **DECLARED)
    environment = {
        "PENSTOCK_DB": loader.db, "PENSTOCK_KAFKA": loader.bootstrap, "PENSTOCK_PIPELINES": str(folder),
    }  # fmt: skip
    done = CliRunner().invoke(app, [*command, "--json"], env=environment)
    return json.loads(done.stdout)


@pytest.mark.parametrize("axis", ["offset", "time"])
def test_the_legend_of_the_map_adds_up_to_the_offsets_of_the_log(
    loaded: tuple[Account, Loader], reading: tuple[Connection, int], axis: Axis
) -> None:
    _, loader = loaded
    connection, pipeline_id = reading
    found = describe_coverage(connection, "orders", pipeline_id, axis, 1)
    legend = {entry.kind: entry.offsets for entry in found.legend}
    assert list(legend) == list(get_args(Kind))
    assert sum(legend.values()) == found.total == sum(each.until - each.from_ for each in found.partitions)
    for each in found.partitions:
        bounds = [each.from_, *(cell.until for cell in each.cells)]
        assert [cell.from_ for cell in each.cells] == bounds[:-1]
        assert bounds[-1] == each.until
    [[rows, quarantined, holes]] = loader.query(
        "select sum(rows)::int, sum(quarantined)::int, sum(holes)::int from penstock.covered"
    )
    assert (legend["published"], legend["quarantined"], legend["hole"]) == (rows, quarantined, holes)
    gaps = sum(until - start for _, start, until in loader.gaps())
    assert legend["rolled_back"] == gaps == 35
    assert legend["pending"] == 1
    assert legend["not_loaded"] == 10
    assert {cell.kind for each in found.partitions for cell in each.cells} >= {
        "published", "quarantined", "rolled_back", "pending", "not_loaded",
    }  # fmt: skip


def test_the_list_of_loads_and_a_load_show_states_phases_and_actions(reading: tuple[Connection, int]) -> None:
    connection, pipeline_id = reading
    found = describe_loads(connection, "orders", pipeline_id, 1, None, None)
    assert [(each.load, each.kind, each.state) for each in found.loads] == [
        (5, "live", "held"),
        (4, "replay", "published"),
        (3, "live", "rolled_back"),
        (2, "live", "published"),
        (1, "live", "published"),
    ]
    assert (found.pages, found.total, found.loads[2].who) == (1, 5, "ann")
    assert [each.load for each in describe_loads(connection, "orders", pipeline_id, 1, "replay", None).loads] == [4]
    held = describe_load(connection, "orders", pipeline_id, 5)
    assert held.actions == ["approve", "discard"]
    assert [(each.phase, each.ended) for each in held.phases] == [
        ("wait", True), ("stage", True), ("validate", True), ("held", False),
    ]  # fmt: skip
    assert [check.expectation for check in held.checks if not check.success][:1] == [EXPECTATION]
    assert describe_load(connection, "orders", pipeline_id, 3).actions == ["undo"]
    assert describe_load(connection, "orders", pipeline_id, 2).actions == ["rollback", "replay"]
    with pytest.raises(WrongUseError, match="orders has no load 99"):
        describe_load(connection, "orders", pipeline_id, 99)


@pytest.mark.parametrize(("most", "more"), [(2, False), (1, True)])
def test_a_load_says_whether_it_has_more_ranges_than_it_shows(
    reading: tuple[Connection, int], monkeypatch: pytest.MonkeyPatch, most: int, more: bool
) -> None:
    connection, pipeline_id = reading
    assert connection.execute("select count(*) from penstock.load_range where load_id = 1").fetchone() == (2,)
    monkeypatch.setattr("penstock.airflow.page.loads.MOST_RANGES", most)
    found = describe_load(connection, "orders", pipeline_id, 1)
    assert (len(found.ranges), found.more_ranges) == (most, more)


def test_head_quality_and_incidents_have_the_figures_of_the_command_line(
    loaded: tuple[Account, Loader], reading: tuple[Connection, int], tmp_path: Path
) -> None:
    _, loader = loaded
    connection, _ = reading
    declared = {"orders": loader.pipeline}
    [status] = _run(loader, tmp_path, "status")["pipelines"]
    head = describe_pipeline(connection, "orders", loader.pipeline)
    for field in ("state", "cause", "next_step"):
        assert getattr(head, field) == status[field]
    assert (head.tiles.gaps, head.lag) == (status["gaps"], sum(each["lag"] for each in status["partitions"]))
    assert head.action is not None
    assert (head.action.kind, head.action.load) == ("settle", 5)
    [entry] = describe_pipelines(connection, declared).pipelines
    assert entry.model_dump() == {name: getattr(head, name) for name in type(entry).model_fields} | {
        "action": head.action.model_dump(),
        "load": head.load and head.load.model_dump(),
        "recent": [each.model_dump() for each in head.recent],
        "oldest_seconds": entry.oldest_seconds,
    }
    quality = json.loads(describe_quality(connection, "orders", 20, None).model_dump_json(exclude={"sql"}))
    wanted = _run(loader, tmp_path, "quality", "orders")
    assert [check["results"][-1]["figure"] for check in quality["checks"]] == [
        check["results"][-1]["figure"] for check in wanted["checks"]
    ]
    assert (quality["loads"], quality["failures"]) == (wanted["loads"], wanted["failures"])
    incidents = describe_incidents(connection, "orders").incidents
    assert [(each.kind, each.load) for each in incidents] == [
        (each["kind"], each["load"]) for each in _run(loader, tmp_path, "incidents", "orders", "--all")["incidents"]
    ]


def test_quarantined_records_are_counted_and_listed_without_their_contents(
    loaded: tuple[Account, Loader], reading: tuple[Connection, int], tmp_path: Path
) -> None:
    _, loader = loaded
    connection, pipeline_id = reading
    groups = describe_quarantine(connection, "orders", pipeline_id)
    assert [(each.reason, each.rule, each.records, each.first) for each in groups.groups] == [
        ("bad_json", None, 1, ["0:70"]),
        ("rule", "positive", 1, ["0:71"]),
    ]
    assert groups.records == _run(loader, tmp_path, "quarantine", "list", "orders")["records"]
    records = describe_records(connection, "orders", pipeline_id, None, None, 1, SECRET)
    assert [(each.partition, each.offset, each.reason) for each in records.records] == [
        (0, 70, "bad_json"), (0, 71, "rule"),
    ]  # fmt: skip
    assert records.records[0].key_hash == records.records[1].key_hash
    other = describe_records(connection, "orders", pipeline_id, None, None, 1, b"key of another server")
    assert other.records[0].key_hash != records.records[0].key_hash
    assert describe_records(connection, "orders", pipeline_id, "rule", "positive", 1, SECRET).total == 1


def test_backfills_events_and_holds_are_listed(loaded: tuple[Account, Loader], reading: tuple[Connection, int]) -> None:
    _, loader = loaded
    connection, pipeline_id = reading
    events = describe_events(connection, "orders", pipeline_id, 1)
    assert (events.events[0].kind, events.events[0].load) == ("held", 5)
    assert ("rolled_back", "ann", "wrong prices") in [(each.kind, each.actor, each.why) for each in events.events]
    loader.plan_backfill(AllGaps(), per_load=20)
    [planned, replay] = describe_backfills(connection, "orders", pipeline_id).backfills
    assert (planned.state, planned.loads, planned.offsets) == ("running", 2, 35)
    assert (replay.state, replay.replace, replay.rows) == ("done", True, 10)


def test_an_incident_shows_notices_that_wait_fail_and_are_sent(loaded: tuple[Account, Loader]) -> None:
    with open_ledger(loaded[1].db) as connection:

        def look() -> list[tuple[str, str, str, int, str | None]]:
            [incident] = [each for each in describe_incidents(connection, "orders").incidents if each.load == 5]
            return [
                (each.kind, each.route, each.state, each.attempts, each.last_error)
                for each in incident.notices
                if each.kind == "opened"
            ]

        assert look() == [("opened", "shop", "waiting", 0, None)]
        claimed = [each.notice_id for each in claim_notices(connection, ["shop"], 10) if each.load == 5]
        postpone_notices(connection, claimed, "the receiver answered 503")
        assert look() == [("opened", "shop", "failing", 1, "the receiver answered 503")]
        finish_notices(connection, claimed)
        assert look() == [("opened", "shop", "sent", 1, None)]


PREVIEWS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "gaps": ({"gaps": True, "records_per_load": 20}, ["--gaps", "--records-per-load", "20"]),
    "replay": (
        {"ranges": "0:0-10,1:5-9", "replace": True},
        ["--offsets", "0:0-10", "--offsets", "1:5-9", "--replace"],
    ),
}


@pytest.mark.parametrize("kind", list(PREVIEWS))
def test_a_preview_by_samples_is_that_of_the_command_line(
    loaded: tuple[Account, Loader], reading: tuple[Connection, int], tmp_path: Path, kind: str
) -> None:
    _, loader = loaded
    asked, options = PREVIEWS[kind]
    found = json.loads(describe_preview(reading[0], loader.pipeline, **asked).model_dump_json(by_alias=True))
    wanted = _run(loader, tmp_path, "backfill", "orders", "--dry-run", *options)
    assert found["state"] == wanted["state"] == "preview"
    assert found["load_count"] == len(wanted["loads"])
    for field in ("offsets", "ranges", "loads", "replaced", "planned", "gone"):
        assert _without_nulls(found[field]) == wanted[field], field


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return {name: each for name, each in value.items() if each is not None} if isinstance(value, dict) else value


def test_a_preview_says_why_it_is_refused_and_by_time_names_whole_ranges(
    loaded: tuple[Account, Loader], reading: tuple[Connection, int]
) -> None:
    _, loader = loaded
    refused = describe_preview(reading[0], loader.pipeline, ranges="0:0-10")
    assert (refused.state, refused.loads) == ("refused", [])
    assert refused.error is not None
    assert "load 1 has published it" in refused.error
    assert describe_preview(reading[0], loader.pipeline, ranges="0:0-10", gaps=True).state == "refused"
    [[begin]] = loader.query("select published_at from penstock.load where load_id = 1")
    found = describe_preview(reading[0], loader.pipeline, from_time=begin.isoformat(), replace=True)
    assert [(each.partition, each.from_, each.until) for each in found.ranges] == [(0, 60, 103), (1, 20, 30)]
    many = describe_preview(reading[0], loader.pipeline, ranges="0:0-60", replace=True, records_per_load=1)
    assert many.load_count == 60


def test_the_sql_of_each_panel_gives_a_reader_the_rows_of_the_panel(
    loaded: tuple[Account, Loader], reading: tuple[Connection, int]
) -> None:
    _, loader = loaded
    connection, pipeline_id = reading
    panels = [
        (head := describe_pipeline(connection, "orders", loader.pipeline), len(head.partitions)),
        (describe_loads(connection, "orders", pipeline_id, 1, None, None), 5),
        (load := describe_load(connection, "orders", pipeline_id, 5), len(load.ranges)),
        (groups := describe_quarantine(connection, "orders", pipeline_id), len(groups.groups)),
        (describe_records(connection, "orders", pipeline_id, None, None, 1, SECRET), groups.records),
        (describe_results(connection, "orders", loader.pipeline), 0),
        (backfills := describe_backfills(connection, "orders", pipeline_id), len(backfills.backfills)),
        (incidents := describe_incidents(connection, "orders"), len(incidents.incidents)),
        (events := describe_events(connection, "orders", pipeline_id, 1), len(events.events)),
    ]
    quality = describe_quality(connection, "orders", 30, None)
    coverage = describe_coverage(connection, "orders", pipeline_id, "offset", 1)
    with psycopg.connect(superuser(loader.db)) as reader:
        reader.execute("set role penstock_reader")
        for panel, rows in panels:
            assert len(reader.execute(panel.sql.encode()).fetchall()) == rows, type(panel).__name__
        for panel in (quality, coverage):
            assert reader.execute(panel.sql.encode()).fetchall(), type(panel).__name__


def test_no_answer_holds_a_payload(loaded: tuple[Account, Loader], reading: tuple[Connection, int]) -> None:
    _, loader = loaded
    connection, pipeline_id = reading
    answers = [
        describe_pipeline(connection, "orders", loader.pipeline),
        describe_coverage(connection, "orders", pipeline_id, "offset", 1),
        describe_loads(connection, "orders", pipeline_id, 1, None, None),
        *(describe_load(connection, "orders", pipeline_id, load) for load in range(1, 6)),
        describe_quality(connection, "orders", 30, EXPECTATION),
        describe_quarantine(connection, "orders", pipeline_id),
        describe_records(connection, "orders", pipeline_id, None, None, 1, SECRET),
        describe_backfills(connection, "orders", pipeline_id),
        describe_preview(connection, loader.pipeline, ranges="0:60-72", replace=True),
        describe_incidents(connection, "orders"),
        describe_events(connection, "orders", pipeline_id, 1),
    ]
    for answer in answers:
        text = answer.model_dump_json(by_alias=True)
        assert CANARY not in text, type(answer).__name__
        assert "471100815" not in text, type(answer).__name__
