"""Rules in a declaration: both forms are read and kept, and each mistake is named at its place."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from declaring import COLUMNS, declare, describe
from penstock.declaration.pipeline import Pipeline
from penstock.kafka.readers.places import GAP, join_places
from penstock.model.ranges import Range

NULL = {"name": "a", "expect": "expect_column_values_to_be_null", "column": "note"}


def mistakes(*rules: Any) -> list[tuple[tuple[Any, ...], str]]:
    with pytest.raises(ValidationError) as raised:
        Pipeline.model_validate(describe("topic", rules=list(rules)))
    return [(error["loc"], error["msg"]) for error in raised.value.errors()]


def test_both_forms_of_a_rule_are_read_and_kept() -> None:
    pipeline = declare(
        "topic",
        rules=[
            {"name": "a", "where": "id > 0", "reason": "why", "hold_above": {"records": 0, "share": 0.5}},
            {"name": "b", "expect": "expect_column_values_to_be_between", "column": "id", "min_value": 1},
        ],
    )

    assert [rule.hold_above.records for rule in pipeline.rules] == [0, 10_000]
    assert pipeline.rules[1].arguments == {"column": "id", "min_value": 1}
    kept = Pipeline.read_kept(pipeline.model_dump_json())
    assert kept == pipeline
    assert declare("topic", rules=list(pipeline.rules)) == pipeline


@pytest.mark.parametrize(
    ("rule", "place", "what"),
    [
        ({"name": "a"}, ("rules", 0), "has no condition; allowed: either `where` or `expect`"),
        ({**NULL, "where": "id > 0"}, ("rules", 0), "has two conditions"),
        ({"name": "a", "where": "  "}, ("rules", 0, "where"), "is not a condition"),
        ({"name": "a-b", "where": "id > 0"}, ("rules", 0, "name"), "'a-b' is not a valid name of a rule"),
        ({"name": "a", "where": "id > 0", "wher": 1}, ("rules", 0, "wher"), "unknown name (did you mean where?)"),
        ({**NULL, "column": "nte"}, ("rules", 0, "column"), "unknown column 'nte' (did you mean note?)"),
        ({**NULL, "mostly": 0.5}, ("rules", 0, "mostly"), "unknown argument of expect_column_values_to_be_null"),
        (
            {"name": "a", "expect": "expect_column_values_to_be_unique", "column": "id"},
            ("rules", 0, "expect"),
            "'expect_column_values_to_be_unique' does not judge single rows",
        ),
        (
            {"name": "a", "expect": "expect_column_values_to_match_regex", "column": "note", "regex": "(("},
            ("rules", 0, "regex"),
            "'((' is not a valid regular expression",
        ),
        (
            {"name": "a", "expect": "expect_column_values_to_be_between", "column": "id"},
            ("rules", 0, "min_value"),
            "min_value and max_value are missing",
        ),
        ({"name": "a", "where": "id > 0", "hold_above": {"records": -1}}, ("rules", 0, "hold_above", "records"),
         "-1 is too small"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_rule_is_named_at_its_place(rule: dict[str, Any], place: tuple[Any, ...], what: str) -> None:
    ((found, message),) = mistakes(rule)

    assert found == place
    assert message.startswith(what)


def test_two_rules_of_one_name_are_a_mistake() -> None:
    rule = {"name": "a", "where": "id > 0"}

    assert mistakes(rule, rule) == [(("rules", 1, "name"), "two rules are named 'a'; allowed: each name once")]


@pytest.mark.parametrize(
    ("dedupe", "place", "what"),
    [
        ({"by": []}, ("dedupe", "by"), "is empty"),
        ({}, ("dedupe", "by"), "is missing"),
        ({"by": ["nte"]}, ("dedupe", "by", 0), "unknown column 'nte' (did you mean note?)"),
        ({"by": ["doc"]}, ("dedupe", "by", 0), "'doc' is json, whose values cannot be compared"),
        ({"by": ["id"], "within": "soon"}, ("dedupe", "within"), "'soon' is not a valid duration"),
        ({"by": ["id", "note"], "within": "1d"}, ("dedupe", "within"), "no index begins with id, note"),
        ({"by": ["id"], "withn": "1d"}, ("dedupe", "withn"), "unknown name (did you mean within?)"),
    ],
)
def test_a_mistake_in_dedupe_is_named_at_its_place(dedupe: dict[str, Any], place: tuple[Any, ...], what: str) -> None:
    columns = {**COLUMNS, "doc": {"type": "json"}}
    indexes = [["id"], ["note"]] if "note" in dedupe.get("by", ()) else [["id"]]
    with pytest.raises(ValidationError) as raised:
        declare("topic", columns=columns, indexes=indexes, dedupe=dedupe)

    found = [(error["loc"], error["msg"]) for error in raised.value.errors()]
    assert [where for where, _ in found] == [place]
    assert found[0][1].startswith(what)


def test_an_index_that_begins_with_the_columns_in_any_order_serves_dedupe() -> None:
    pipeline = declare("topic", indexes=[["note", "id"]], dedupe={"by": ["id", "note"], "within": "30d"})

    assert Pipeline.read_kept(pipeline.model_dump_json()) == pipeline
    assert mistakes({"name": "dedupe", "where": "id > 0"})[0][0] == ("rules", 0, "name")


def test_near_offsets_are_read_together_and_far_ones_apart() -> None:
    places = [(1, 5), (0, 0), (0, GAP), (0, 2 * GAP + 1), (0, 7)]

    assert join_places(places) == [
        Range(0, 0, GAP + 1), Range(0, 2 * GAP + 1, 2 * GAP + 2), Range(1, 5, 6),
    ]  # fmt: skip
    assert join_places([]) == []
