"""Results as people see them: the page and the command line show one state, and a rebuild under way."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from declaring import COLUMNS, declare, write_declaration
from penstock.airflow.page.documents import ResultEntry
from penstock.airflow.page.panels import describe_results
from penstock.cli.main import app
from penstock.errors import WrongUseError
from penstock.ledger.connection import open_for_reading
from penstock.load.results import rebuild
from penstock.load.results.rebuild import rebuild_result

if TYPE_CHECKING:
    from pathlib import Path

    from fix_loaders import Start
    from whole_loads import Loader

NEWEST = {"table": "analytics.newest", "mode": "upsert", "key": ["id"]}
TOTAL = {
    "table": "analytics.total",
    "mode": "sql",
    "key": ["one"],
    "columns": {"one": "integer", "orders": "bigint"},
    "statements": """
        insert into result as r (one, orders) select 1, count(*) from added
        on conflict (one) do update set orders = r.orders + excluded.orders""",
}


def order(number: int) -> bytes:
    return json.dumps({"id": number, "note": "a note"}).encode()


def analyze(loader: Loader, table: str) -> None:
    """Renew the catalog's estimate of a table's rows."""
    with psycopg.connect(loader.db) as connection:
        connection.execute(sql.SQL("analyze {}").format(sql.Identifier(*table.split("."))))


def look(loader: Loader) -> dict[str, dict[str, Any]]:
    """The answer of the page, by table."""
    with open_for_reading(loader.db) as connection:
        answer = describe_results(connection, "orders", loader.pipeline).model_dump(mode="json")
    return {each["table"]: each for each in answer["results"]}


def ask(loader: Loader, folder: Path, **declared: Any) -> dict[str, dict[str, Any]]:
    """The answer of the command line, by table."""
    write_declaration(folder, loader.pipeline.topic, columns=COLUMNS, **declared)
    environment = {
        "PENSTOCK_DB": loader.db, "PENSTOCK_KAFKA": loader.bootstrap, "PENSTOCK_PIPELINES": str(folder),
    }  # fmt: skip
    done = CliRunner().invoke(app, ["results", "orders", "--json"], env=environment)
    assert done.exit_code == 0, done.output
    results = [ResultEntry.model_validate(each) for each in json.loads(done.stdout)["results"]]
    return {each.table: each.model_dump(mode="json") for each in results}


def test_page_and_command_show_each_state_of_a_result(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "ROWS_OF_PIECE", 1)  # a piece is one load
    account, loader = start(1, columns=COLUMNS, results=[NEWEST])
    declared = look(loader)["analytics.newest"]
    assert (declared["state"], declared["rows"], declared["load"]) == ("declared", None, None)
    assert "the next load prepares the table" in declared["next_step"]
    account.send([order(number) for number in range(5)])
    first = loader.load()
    account.send([order(number) for number in range(3, 6)])
    second = loader.load()
    analyze(loader, "analytics.newest")
    current = look(loader)["analytics.newest"]
    assert (current["state"], current["rows"], current["load"], current["key"]) == ("current", 6, second, ["id"])
    assert (current["changes_with_loads"], current["verification"], current["next_step"]) == (True, None, None)

    changed = NEWEST | {"columns": {"words": "note"}}
    loader = replace(loader, pipeline=declare(account.topic, columns=COLUMNS, results=[changed, TOTAL]))
    account.send([order(6)])
    third = loader.load()
    found = look(loader)
    assert {name: (each["state"], each["changes_with_loads"]) for name, each in found.items()} == {
        "analytics.newest": ("waiting", True),
        "analytics.total": ("waiting", False),
    }
    assert found["analytics.newest"]["load"] == third
    assert "penstock rebuild orders analytics.total" in found["analytics.total"]["next_step"]

    def stop(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild_result(loader.db, loader.pipeline, "analytics.newest", "ann", stop)
    building = look(loader)["analytics.newest"]
    assert building["state"] == "building"
    assert building["rebuild"] == {"load": first, "until_load": third, "rows": 5, "rows_to_read": 9}
    for table in ("analytics.newest", "analytics.total"):
        rebuild_result(loader.db, loader.pipeline, table, "ann", lambda _: None)
        analyze(loader, table)
    found = look(loader)
    assert {(each["state"], each["load"]) for each in found.values()} == {("current", third)}
    assert found == ask(loader, tmp_path, results=[changed, TOTAL])


def test_the_last_verification_of_a_result_names_what_differs(start: Start) -> None:
    account, loader = start(1, columns=COLUMNS, results=[NEWEST, TOTAL])
    account.send([order(number) for number in range(5)])
    loader.load()
    loader.verify()
    found = look(loader)
    proven = found["analytics.newest"]["verification"]
    assert (proven["fault"], proven["share"]) == (None, 1.0)
    assert (found["analytics.total"]["provable"], found["analytics.total"]["verification"]) == (False, None)
    with psycopg.connect(loader.db) as connection:
        connection.execute("delete from analytics.newest where id = 2")
    loader.verify()
    faulty = look(loader)["analytics.newest"]
    assert faulty["verification"]["fault"].startswith("of 5 keys 1 are missing")
    assert "penstock rebuild orders analytics.newest" in faulty["next_step"]
    rebuild_result(loader.db, loader.pipeline, "analytics.newest", "ann", lambda _: None)
    assert look(loader)["analytics.newest"]["verification"] is None


def test_a_second_process_leaves_a_finished_rebuild_alone(start: Start) -> None:
    account, loader = start(1, columns=COLUMNS, results=[TOTAL])
    account.send([order(1)])
    loader.load()

    def finish(_: str) -> None:
        rebuild_result(loader.db, loader.pipeline, "analytics.total", "bob", lambda _: None)

    with pytest.raises(WrongUseError, match="another process has finished or replaced this rebuild"):
        rebuild_result(loader.db, loader.pipeline, "analytics.total", "ann", finish)
    assert loader.query("select orders from analytics.total") == [(1,)]
