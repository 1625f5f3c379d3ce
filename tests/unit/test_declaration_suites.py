"""Suites by name and the defaults of a folder: their checks, and their mistakes with file and line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from declaring import declare, write_declaration
from penstock.airflow.pipeline_page import write_page
from penstock.declaration.pipeline import Pipeline, read_each, read_named, read_pipeline, read_pipelines
from penstock.errors import DeclarationError
from penstock.quality import data  # noqa: F401 - Great Expectations finds classes that are imported
from penstock.quality.gx import ExpectationSuite, get_expectation_impl

if TYPE_CHECKING:
    from pathlib import Path

FINANCE = """\
description: checks of amounts
checks:
  - {expect: expect_column_values_to_not_be_null, column: id}
  - expect: expect_column_value_lengths_to_be_between
    column: note
    max_value: 20
    severity: warning
"""
NOT_NULL = {"expect": "expect_column_values_to_not_be_null", "severity": "error", "column": "id"}


def write(folder: Path, text: str, name: str = "suites/finance.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def declared(folder: Path, **changes: Any) -> Pipeline:
    return read_pipeline(write_declaration(folder, "topic", **changes))


def mistakes(folder: Path, **changes: Any) -> list[str]:
    with pytest.raises(DeclarationError) as refused:
        declared(folder, **changes)
    return refused.value.what.replace(f"{folder}/", "").split("\n")


def test_checks_of_a_suite_come_after_the_own_checks_and_name_the_suite(tmp_path: Path) -> None:
    write(tmp_path, FINANCE)
    own = {"expect": "expect_table_row_count_to_be_between", "min_value": 1}
    checks = declared(tmp_path, suites=["finance"], checks=[own]).checks
    assert [(check.expect, check.severity, check.suite) for check in checks] == [
        ("expect_table_row_count_to_be_between", "error", None),
        ("expect_column_values_to_not_be_null", "error", "finance"),
        ("expect_column_value_lengths_to_be_between", "warning", "finance"),
    ]
    assert checks[2].arguments == {"column": "note", "max_value": 20}


def test_the_ledger_keeps_the_checks_of_suites_whatever_happens_to_the_files(tmp_path: Path) -> None:
    path = write(tmp_path, FINANCE)
    pipeline = declared(tmp_path, suites=["finance"])
    path.unlink()
    assert Pipeline.read_kept(pipeline.model_dump_json()) == pipeline
    assert "`expect_column_values_to_not_be_null` of the suite `finance`" in write_page(pipeline)


def test_a_suite_may_be_the_json_of_great_expectations(tmp_path: Path) -> None:
    suite = {
        "name": "any",
        "id": None,
        "expectations": [
            {"type": NOT_NULL["expect"], "kwargs": {"column": "id"}, "meta": {"a": 1}, "severity": "critical"},
            {"type": NOT_NULL["expect"], "kwargs": {"column": "note", "mostly": 0.9}, "severity": "warning"},
        ],
        "meta": {"great_expectations_version": "1.24.1"},
        "notes": None,
    }
    write(tmp_path, json.dumps(suite, indent=2), "suites/finance.json")
    assert [check.model_dump() for check in declared(tmp_path, suites=["finance"]).checks] == [
        {**NOT_NULL, "suite": "finance"},
        {**NOT_NULL, "suite": "finance", "severity": "warning", "column": "note", "mostly": 0.9},
    ]
    suite["expectations"][0]["type"] = "unknown"  # type: ignore[index]
    suite["expectations"][1]["kwargs"]["mostly"] = 2  # type: ignore[index]
    write(tmp_path, json.dumps(suite, indent=2), "suites/finance.json")
    assert [line.split("; ")[0] for line in mistakes(tmp_path, suites=["finance"])] == [
        "suites/finance.json:6: expectations[0].type: used by orders: unknown expectation 'unknown'",
        "suites/finance.json:19: expectations[1].kwargs.mostly: used by orders: 2 is not a valid share",
    ]
    suite["expectations"] = [{"expectation_type": "expect_nothing"}]
    write(tmp_path, json.dumps(suite, indent=2), "suites/finance.json")
    assert mistakes(tmp_path, suites=["finance"]) == [
        "suites/finance.json:5: expectations[0]: is not an expectation; allowed: a mapping with type and kwargs"
    ]


def test_a_suite_that_great_expectations_wrote_is_read(tmp_path: Path) -> None:
    not_null = get_expectation_impl("expect_column_values_to_not_be_null")(column="id", severity="critical", notes="n")
    copies = get_expectation_impl("expect_business_id_unique")(columns=["id"], severity="info", meta={"a": [1]})
    suite = ExpectationSuite(name="finance", expectations=[not_null, copies])
    write(tmp_path, json.dumps(suite.to_json_dict(), indent=2, sort_keys=True), "suites/finance.json")
    assert [check.model_dump() for check in declared(tmp_path, suites=["finance"]).checks] == [
        {**NOT_NULL, "suite": "finance"},
        {"expect": "expect_business_id_unique", "severity": "info", "suite": "finance", "columns": ["id"]},
    ]


def test_a_check_that_a_pipeline_cannot_run_names_the_line_of_the_suite_and_the_pipeline(tmp_path: Path) -> None:
    write(tmp_path, FINANCE.replace("column: note", "column: amount"))
    assert [line.split(", note")[0] for line in mistakes(tmp_path, suites=["finance"])] == [
        "suites/finance.yaml:5: checks[1].column: used by orders: unknown column 'amount'; allowed: id"
    ]


WRONG_SUITES = [
    ("checks: [\n", "suites/finance.yaml:1: invalid YAML: "),
    ("- {expect: x}\n", "suites/finance.yaml:1: must be a mapping, not a list; allowed: description, checks"),
    ("cheks: []\n", "suites/finance.yaml:1: cheks: unknown name (did you mean checks?); allowed: "),
    ("checks: []\n", "suites/finance.yaml:1: checks: is empty; allowed: at least one"),
    ("checks:\n- {expect: x, suite: y}\n", "suites/finance.yaml:2: checks[0].suite: unknown name; allowed: no suite"),
    ("checks:\n- 5\n", "suites/finance.yaml:2: checks[0]: must be a mapping, not 5"),
]


@pytest.mark.parametrize(("text", "message"), WRONG_SUITES)
def test_a_mistake_in_a_suite_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, text)
    found = mistakes(tmp_path, suites=["finance"])
    assert any(line.startswith(message) for line in found), found
    assert all("; allowed: " in line for line in found)
    assert all(line.startswith("suites/finance.yaml:") for line in found)


def test_a_broken_suite_stops_only_the_pipelines_that_name_it(tmp_path: Path) -> None:
    write(tmp_path, "checks: [")
    for name in ("uses", "uses_too"):
        write_declaration(tmp_path, "topic", name=name, suites=["finance"])
    write_declaration(tmp_path, "topic", name="without")
    read = {path.stem: each for path, each in read_each(tmp_path).items()}
    assert isinstance(read["without"], Pipeline)
    assert isinstance(read["uses"], DeclarationError)
    assert isinstance(read["uses_too"], DeclarationError)
    assert read_named(tmp_path, "without").checks == ()
    with pytest.raises(DeclarationError) as refused:
        read_pipelines(tmp_path)
    assert len(refused.value.what.split("\n")) == 1, "the suite's mistake is listed once"


def test_a_suite_that_does_not_exist_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    write(tmp_path, FINANCE)
    write(tmp_path, FINANCE, "suites/defaults.yaml")
    found = mistakes(tmp_path, suites=["finanse", "../finance", "finance", "finance", "defaults"])
    assert [line.partition(": ")[2] for line in found] == [
        "suites[0]: there is no suite 'finanse' (did you mean finance?); allowed: finance",
        "suites[1]: there is no suite '../finance' (did you mean finance?); allowed: finance",
        "suites[3]: the suite finance is named twice; allowed: once",
        "suites[4]: there is no suite 'defaults'; allowed: finance",
    ]


def test_two_files_of_one_suite_are_refused(tmp_path: Path) -> None:
    write(tmp_path, FINANCE)
    write(tmp_path, FINANCE, "suites/finance.yml")
    assert mistakes(tmp_path, suites=["finance"]) == [
        "suites/finance.yml:1: is also the suite finance.yaml; allowed: one file a suite"
    ]


def test_a_suite_is_never_left_out_in_silence() -> None:
    """A declaration in Python has no folder, so the checks of its suites would be missing."""
    with pytest.raises(ValidationError, match="the suite 'finance' was not read; allowed: in a YAML file"):
        declare("topic", suites=["finance"])


def test_a_check_cannot_claim_to_come_from_a_suite(tmp_path: Path) -> None:
    found = mistakes(tmp_path, checks=[{**NOT_NULL, "suite": "finance"}])
    assert [line.partition(": ")[2] for line in found] == [
        "checks[0].suite: unknown name; allowed: the name of the suite under `suites`"
    ]


DEFAULTS = """\
checks:
  - {expect: expect_table_row_count_to_be_between, min_value: 1, severity: warning}
suites: [finance]
max_quarantined: 1000
"""


def test_every_pipeline_gets_the_defaults_unless_it_leaves_them_out(tmp_path: Path) -> None:
    write(tmp_path, FINANCE)
    write(tmp_path, DEFAULTS, "quality.yaml")
    plain = declared(tmp_path)
    assert [check.suite for check in plain.checks] == ["defaults", "finance", "finance"]
    assert plain.max_quarantined == 1000
    named = declared(tmp_path, suites=["finance"], max_quarantined=None)
    assert [check.suite for check in named.checks] == ["finance", "finance", "defaults"]
    assert named.max_quarantined is None
    without = declared(tmp_path, quality={"defaults": False})
    assert (without.checks, without.max_quarantined) == ((), None)
    assert list(read_pipelines(tmp_path)) == ["orders"], "the file of defaults is no pipeline"


MORE_DEFAULTS = """\
rules:
  - {name: positive, where: id > 0}
  - {name: short, where: length(note) < 9}
dedupe: {by: [id]}
alerts: oncall
"""


def test_rules_dedupe_and_alerts_have_defaults_that_a_pipeline_overrides(tmp_path: Path) -> None:
    write(tmp_path, MORE_DEFAULTS, "quality.yaml")
    plain = declared(tmp_path)
    assert [rule.name for rule in plain.rules] == ["positive", "short"]
    assert (plain.dedupe and plain.dedupe.by, [route.to for route in plain.alerts]) == (("id",), ["oncall"])
    rules = [{"name": "early", "where": "id < 9"}, {"name": "short", "where": "length(note) < 99"}]
    own = declared(tmp_path, rules=rules, dedupe=None, alerts=None)
    assert [(rule.name, rule.where) for rule in own.rules] == [
        ("early", "id < 9"), ("short", "length(note) < 99"), ("positive", "id > 0"),
    ]  # fmt: skip
    assert (own.dedupe, own.alerts) == (None, ())
    page = write_page(plain)
    assert "- rule `positive`: `id > 0`" in page
    assert "copies by `id`" in page
    without = declared(tmp_path, quality={"defaults": False})
    assert (without.rules, without.dedupe, without.alerts) == ((), None, ())


def test_mistakes_in_default_rules_dedupe_and_alerts_are_named_with_their_line(tmp_path: Path) -> None:
    wrong = MORE_DEFAULTS.replace("[id]", "[ids]").replace("where: length", "were: length").replace("oncall", "a/b")
    write(tmp_path, wrong, "quality.yaml")
    own = [{"name": "early", "where": "id < 9"}]
    assert [line.split("; ")[0].split(" (did")[0] for line in mistakes(tmp_path, rules=own)] == [
        "quality.yaml:3: rules[1].were: used by orders: unknown name",
        "quality.yaml:3: rules[1]: used by orders: has no condition",
        "quality.yaml:4: dedupe.by[0]: used by orders: unknown column 'ids'",
        "quality.yaml:5: alerts[0].to: used by orders: not a valid id of an Airflow connection",
    ]
    write(tmp_path, "rules:\n- 5\n", "quality.yaml")
    assert mistakes(tmp_path)[0].startswith("quality.yaml:2: rules[0]: used by orders: must be a mapping, not 5")


def test_mistakes_of_the_defaults_are_named_with_their_line(tmp_path: Path) -> None:
    write(tmp_path, DEFAULTS.replace("1000", "many").replace("min_value", "min_valu"), "quality.yaml")
    assert [line.split("; ")[0].split(" (did")[0] for line in mistakes(tmp_path)] == [
        "quality.yaml:2: checks[0].min_valu: used by orders: unknown argument of expect_table_row_count_to_be_between",
        "quality.yaml:3: suites[0]: there is no suite 'finance'",
        "quality.yaml:4: max_quarantined: used by orders: must be a whole number, not 'many'",
    ]
    write(tmp_path, "topic: orders\n", "quality.yaml")
    assert [line.split("; ")[0] for line in mistakes(tmp_path)] == ["quality.yaml:1: topic: unknown name"]
    assert declared(tmp_path, quality={"defaults": False}).name == "orders"


def test_quality_takes_defaults_true_or_false_only(tmp_path: Path) -> None:
    write_declaration(tmp_path, "topic", quality={"defaults": "no"})
    assert [line.split(": ", 1)[1] for line in mistakes(tmp_path, quality={"defaults": "no"})] == [
        "quality.defaults: must be true or false, not 'no'; allowed: true, false"
    ]
    assert "unknown name" in mistakes(tmp_path, quality={"default": False})[0]
