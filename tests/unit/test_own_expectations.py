"""Penstock's own expectations: their arguments in a declaration, their lookups, and the judgement of a volume."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from declaring import COLUMNS, declare
from penstock.declaration.durations import Window, parse_duration, parse_window
from penstock.declaration.lookups import Lookup, find_lookups
from penstock.declaration.own_expectations import OWN_EXPECTATIONS
from penstock.quality import data
from penstock.quality.data.volume import LEAST_BASELINE, judge_volume
from penstock.quality.gx import get_expectation_impl

WIDE = COLUMNS | {
    "customer": {"type": "text"},
    "version": {"type": "bigint"},
    "amount": {"type": "numeric(12,2)"},
    "seen": {"type": "timestamptz"},
    "document": {"type": "jsonb"},
}
# Arguments that each expectation takes.
EXAMPLES: dict[str, dict[str, Any]] = {
    "expect_key_order_within_partition": {"key": "customer", "order_by": "seen", "tolerance": "5s", "across": "30d"},
    "expect_business_id_unique": {"columns": ["customer", "id"], "near": 10, "across": "100 loads"},
    "expect_key_in_one_partition": {"key": "customer", "across": None},
    "expect_sequence_without_gaps": {"sequence": "version", "key": "customer", "across": "4w"},
    "expect_record_time_near": {"max_ahead": "5m", "max_behind": "30d", "max_disorder": None},
    "expect_fresh": {"within": "2h"},
    "expect_volume_as_usual": {"deviations": 2.5, "weeks": 8},
    "expect_same_when_read_again": {"share": 0.05},
}


@pytest.mark.parametrize("expect", OWN_EXPECTATIONS)
@pytest.mark.parametrize("severity", ["error", "warning", "info"])
def test_each_own_expectation_is_declared_with_its_arguments(expect: str, severity: str) -> None:
    written = {"expect": expect, "severity": severity, **EXAMPLES[expect]}
    [check] = declare("topic", columns=WIDE, checks=[written]).checks
    assert check.model_dump() == written


def test_each_listed_expectation_has_its_class_with_the_listed_arguments() -> None:
    assert {get_expectation_impl(name).__name__ for name in OWN_EXPECTATIONS} == set(data.__all__)
    for name, arguments in OWN_EXPECTATIONS.items():
        fields = get_expectation_impl(name).__fields__
        assert set(arguments) - {"across"} <= set(fields)
        assert {each for each in arguments if fields.get(each) is not None and fields[each].required} == {
            each for each, argument in arguments.items() if argument.needed
        }


@pytest.mark.parametrize("expect", [name for name in OWN_EXPECTATIONS if name != "expect_same_when_read_again"])
def test_each_expectation_describes_itself_in_a_sentence(expect: str) -> None:
    given_ = {name: value for name, value in EXAMPLES[expect].items() if name != "across"}
    expectation = get_expectation_impl(expect)(**given_)
    expectation.render()
    [block] = expectation.rendered_content
    written = str(block.value.to_json_dict()["params"])
    assert block.value.template == expectation.sentence
    assert all(str(value) in written for name, value in given_.items() if f"${name}" in expectation.sentence)


@pytest.mark.parametrize(
    ("expect", "wrong", "message"),
    [
        ("expect_key_order_within_partition", {"key": "nobody"}, "unknown column 'nobody'"),
        ("expect_key_order_within_partition", {"key": "document"}, "cannot use jsonb here"),
        ("expect_key_order_within_partition", {"order_by": "customer"}, "cannot use text here"),
        ("expect_key_order_within_partition", {"tolerance": 5}, "cannot be added to timestamp with time zone"),
        ("expect_key_order_within_partition", {"tolerance": -1}, "-1 is not a valid tolerance"),
        ("expect_key_order_within_partition", {"key": "seen"}, "is the key as well"),
        ("expect_key_order_within_partition", {"key": "_partition"}, "the place or the time of a record"),
        ("expect_key_order_within_partition", {"across": "30"}, "'30' is not a valid across"),
        ("expect_business_id_unique", {"columns": []}, "a list is not a valid columns"),
        ("expect_business_id_unique", {"columns": ["id", "id"]}, "is not a valid columns"),
        ("expect_business_id_unique", {"near": 0}, "0 is not a valid near"),
        ("expect_sequence_without_gaps", {"sequence": "amount"}, "cannot use numeric(12,2) here"),
        ("expect_record_time_near", {"max_ahead": None, "max_behind": None}, "the check has no bound"),
        ("expect_fresh", {"within": "2 hours"}, "is not a valid within"),
        ("expect_fresh", {"wihtin": "2h"}, "unknown argument of expect_fresh (did you mean within?)"),
        ("expect_volume_as_usual", {"weeks": 53}, "53 is not a valid weeks"),
        ("expect_same_when_read_again", {"share": 0}, "0 is not a valid share"),
    ],
)
def test_invalid_arguments_are_refused_in_words(expect: str, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        declare("topic", columns=WIDE, checks=[{"expect": expect, **EXAMPLES[expect], **wrong}])
    assert message in str(refused.value)


def test_durations_and_windows_are_read_and_bounded() -> None:
    assert parse_duration("90s") == timedelta(seconds=90)
    assert (parse_window("2w"), parse_window("1 load")) == (Window(time=timedelta(14)), Window(loads=1))
    for wrong in ("0s", "5", "5 minutes", "-1d", "36501d", "1.5h", None, 5):
        with pytest.raises(ValueError, match="allowed"):
            parse_duration(wrong)
    for wrong in ("0 loads", "1000001 loads", "loads"):
        with pytest.raises(ValueError, match="allowed"):
            parse_window(wrong)


def test_one_index_serves_the_lookups_that_begin_alike() -> None:
    key, across = {"key": "customer"}, {"across": "30d"}
    checks = [
        {"expect": "expect_key_order_within_partition", **key, "order_by": "version", **across},
        {"expect": "expect_sequence_without_gaps", **key, "sequence": "version", **across},
        {"expect": "expect_key_in_one_partition", **key, **across},
        {"expect": "expect_business_id_unique", "columns": ["customer"], **across},
        {"expect": "expect_business_id_unique", "columns": ["id", "version"], **across},
        {"expect": "expect_business_id_unique", "columns": ["seen"]},
    ]
    found = find_lookups(declare("topic", columns=WIDE, checks=checks).checks)
    assert found == [Lookup(("customer",), ("_partition", "version")), Lookup(("id", "version"))]


counts = st.integers(0, 10**12)


@given(st.lists(counts, max_size=LEAST_BASELINE - 1), counts)
def test_every_volume_is_usual_while_the_baseline_is_short(baseline: list[int], rows: int) -> None:
    assert judge_volume(rows, baseline, 4)[0]


@given(st.lists(counts, min_size=LEAST_BASELINE, max_size=60), counts, st.floats(0.1, 100))
def test_a_volume_is_usual_exactly_within_its_bounds(baseline: list[int], rows: int, deviations: float) -> None:
    usual, observed = judge_volume(rows, baseline, deviations)
    assert observed["at_least"] <= observed["usual"] <= observed["at_most"]
    if usual:
        assert observed["at_least"] - 1 <= rows <= observed["at_most"] + 1
    else:
        assert not observed["at_least"] + 1 <= rows <= observed["at_most"] - 1


@given(st.lists(st.integers(900, 1100), min_size=5, max_size=20), counts)
def test_one_unusual_load_does_not_change_the_judgement_much(baseline: list[int], outlier: int) -> None:
    assert judge_volume(1000, [*baseline, outlier], 10)[0]
    assert not judge_volume(10_000, [*baseline, outlier], 10)[0]
