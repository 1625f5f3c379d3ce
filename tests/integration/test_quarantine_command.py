"""`penstock quarantine`: records are listed, shown, exported and dropped, and the ledger keeps who saw them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from whole_loads import Loader

if TYPE_CHECKING:
    from pathlib import Path

    from fix_loaders import Start

AMOUNTS = {"id": {"type": "bigint", "required": True}, "amount": {"type": "integer"}}
RULES = [{"name": "positive", "where": "amount >= 0"}]


class Quarantine:
    """Runs the commands for the pipeline of a loader, as the person ann."""

    def __init__(self, loader: Loader, folder: Path) -> None:
        self.environment = {
            "PENSTOCK_DB": loader.db, "PENSTOCK_KAFKA": loader.bootstrap, "PENSTOCK_PIPELINES": str(folder),
        }  # fmt: skip

    def __call__(self, command: str, *options: str, pipeline: str = "orders") -> tuple[int, str, str]:
        done = CliRunner().invoke(app, ["quarantine", command, pipeline, *options], env=self.environment)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    def document(self, command: str, *options: str) -> Any:
        code, out, _ = self(command, *options, "--json")
        return {**json.loads(out), "code": code}


@pytest.fixture
def loaded(start: Start, tmp_path: Path) -> tuple[Loader, Quarantine]:
    """Two published loads with five quarantined records, and one attempt that was never published."""
    account, loader = start(2, columns=AMOUNTS, rules=RULES)
    account.send([b'{"id": 1, "amount": -1}', b"no JSON", b'{"id": 2}'], partition=0, key=b"k\xff")
    account.send([b'{"id": "x"}', b'{"id": 4, "amount": 4}'], partition=1)
    loader.load()
    account.send([b'{"id": 5, "amount": -5}', b"\xff\xfe", b'{"id": 7, "amount": 7}'], partition=0)
    loader.load()
    return loader, Quarantine(loader, tmp_path)


def test_list_counts_records_by_load_reason_and_rule(loaded: tuple[Loader, Quarantine]) -> None:
    _, quarantine = loaded

    document = quarantine.document("list")

    assert (document["code"], document["records"]) == (0, 5)
    groups = [
        (each["load"], each["reason"], each["rule"], each["records"], each["first"]) for each in document["groups"]
    ]
    assert groups == [
        (2, "bad_json", None, 1, ["0:4"]),
        (2, "rule", "positive", 1, ["0:3"]),
        (1, "bad_json", None, 1, ["0:1"]),
        (1, "rule", "positive", 1, ["0:0"]),
        (1, "wrong_type", None, 1, ["1:0"]),
    ]
    assert quarantine.document("list", "--rule", "positive", "--load", "2")["records"] == 1
    assert quarantine.document("list", "--reason", "wrong_type")["records"] == 1
    assert quarantine.document("list", "--until", "2020-01-01T00:00Z")["records"] == 0
    assert quarantine.document("list", "--since", "2020-01-01T00:00Z")["records"] == 5
    code, out, _ = quarantine("list")
    assert (code, "positive" in out, "wrong_type" in out, "Z " in out) == (0, True, True, True)
    for command in ("list", "show", "export"):
        unknown = quarantine(command, pipeline="oders")
        assert (unknown[0], "no pipeline named oders" in unknown[2]) == (2, True)


def test_show_hides_the_contents_unless_a_person_asks_for_them(loaded: tuple[Loader, Quarantine]) -> None:
    loader, quarantine = loaded

    (hidden,) = quarantine.document("show", "--at", "0:0")["records"]
    assert {"key", "value", "headers", "key_base64"} & hidden.keys() == set()
    assert (hidden["load"], hidden["partition"], hidden["offset"], hidden["rule"]) == (1, 0, 0, "positive")
    assert loader.query("select count(*) from penstock.event where what like 'contents%'") == [(0,)]

    (shown,) = quarantine.document("show", "--at", "0:0", "--payload", "--who", "ann")["records"]
    assert (shown["value"], shown["key_base64"], shown["headers"]) == ('{"id": 1, "amount": -1}', "a/8=", [])
    assert loader.query("select actor, what, why from penstock.event where what like 'contents%'") == [
        ("ann", "contents of quarantined records shown", "partition 0, offset 0")
    ]
    assert '"amount": -1' not in quarantine("show", "--at", "0:0")[1]


def test_export_writes_every_chosen_record_as_a_line(loaded: tuple[Loader, Quarantine], tmp_path: Path) -> None:
    loader, quarantine = loaded

    code, out, _ = quarantine("export", "--reason", "rule")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, [(line["partition"], line["offset"], line["value"]) for line in lines]) == (
        0, [(0, 0, '{"id": 1, "amount": -1}'), (0, 3, '{"id": 5, "amount": -5}')],
    )  # fmt: skip
    to = tmp_path / "records.jsonl"
    assert quarantine.document("export", "--to", str(to))["records"] == 5
    assert len(to.read_text().splitlines()) == 5
    assert quarantine.document("export")["code"] == 2, "stdout cannot hold both"
    assert loader.query(
        "select count(*) from penstock.event where what = 'contents of quarantined records exported'"
    ) == [(2,)]


def test_drop_takes_the_contents_and_leaves_every_offset_accounted_for(loaded: tuple[Loader, Quarantine]) -> None:
    loader, quarantine = loaded

    assert quarantine.document("drop", "--why", "x")["next_step"].startswith("choose records by")
    document = quarantine.document("drop", "--reason", "rule", "--why", "test data", "--who", "ann")

    assert (document["code"], document["loads"]) == (0, [{"load": 1, "records": 1}, {"load": 2, "records": 1}])
    assert loader.query("select actor, load_id, what, why from penstock.event where what like '%dropped'") == [
        ("ann", 1, "contents of 1 quarantined records dropped", "test data"),
        ("ann", 2, "contents of 1 quarantined records dropped", "test data"),
    ]
    assert loader.query(
        "select count(*), count(dropped_at), count(value) filter (where reason = 'rule') from penstock.quarantined"
    ) == [(5, 2, 0)]
    assert loader.verify().faults == ()
    assert quarantine.document("drop", "--reason", "rule", "--why", "again")["code"] == 2
    assert quarantine.document("drop", "--all", "--why", "rest")["records"] == 3


def test_an_odd_place_and_an_odd_time_are_refused_with_their_form(loaded: tuple[Loader, Quarantine]) -> None:
    _, quarantine = loaded

    for options in (("--at", "x"), ("--at", "0:-1")):
        assert "write PARTITION:OFFSET" in quarantine("show", *options)[2]
    for options in (("--since", "monday"), ("--since", "2026-01-31")):
        assert "write it as 2026-01-31T00:00:00Z" in quarantine("list", *options)[2]
