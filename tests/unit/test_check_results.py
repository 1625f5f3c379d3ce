"""The results of checks that the ledger keeps, and the figure that their history shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from declaring import declare
from penstock.model.checks import LISTED, MOST_FAILED, condense, find_figure
from penstock.model.load import CheckResult
from penstock.status.quality import ASCII_BLOCKS, plot


def result(partition: int | None, *, success: bool = True, name: str = "expect_a", **observed: Any) -> CheckResult:
    return CheckResult("builtin", name, partition, None, "error", success, observed)


def test_results_of_few_partitions_are_kept_one_by_one() -> None:
    results = [result(partition, outside=0) for partition in range(LISTED)]
    assert condense(results) == results


def test_a_check_of_many_partitions_keeps_one_result_and_those_that_failed() -> None:
    results = [result(partition, success=partition not in (3, 700), outside=2) for partition in range(1000)]
    kept = condense([*results, result(None, name="expect_b")])
    assert [(each.expectation, each.partition, each.success) for each in kept] == [
        ("expect_a", None, False),
        ("expect_a", 3, False),
        ("expect_a", 700, False),
        ("expect_b", None, True),
    ]
    assert kept[0].observed == {"judged": 1000, "partitions": 2, "observed_value": 2000}
    assert find_figure(kept[0]) == 2000


def test_partitions_that_failed_are_kept_up_to_a_number() -> None:
    kept = condense([result(partition, success=False) for partition in range(1000)])
    assert len(kept) == 1 + MOST_FAILED
    assert kept[0].observed == {"judged": 1000, "partitions": 1000}


def test_a_check_with_a_result_of_the_whole_load_keeps_that_one() -> None:
    whole = result(None, success=False, unexpected_count=7)
    kept = condense([whole, *(result(partition, success=False) for partition in range(5))])
    assert kept[0] is whole
    assert len(kept) == 6


def test_results_of_two_checks_of_one_expectation_are_not_mixed() -> None:
    one, other = (
        [replace(result(at), kind="declared", column="id", check_id=check_id) for at in range(9)]
        for check_id in ("1", "2")
    )
    assert [each.check_id for each in condense([*one, *other])] == ["1", "2"]


@pytest.mark.parametrize(
    ("observed", "figure"),
    [
        ({"rows": 10, "outside": 3}, 3),
        ({"twice": 1, "quarantined_too": 2, "by": "key"}, 3),
        ({"element_count": 9, "unexpected_count": 4}, 4),
        ({"observed_value": 0.5, "element_count": 9}, 0.5),
        ({"rows": 9, "failed": 2, "hold_above": 10}, 2),
        ({"late": 4, "worst_delay": 9, "partitions": 2}, 4),
        ({"near_copies": 1, "far_copies": 2, "copies_elsewhere": 4, "partitions": 1}, 7),
        ({"gaps": 2, "widest": 5, "missing": 6}, 6),
        ({"gaps": 0}, 0),
        ({"from": 1, "position": 1}, None),
        ({"observed_value": True}, None),
    ],
)
def test_the_figure_of_a_result_is_the_count_of_what_is_wrong_or_the_value(
    observed: dict[str, Any], figure: float | None
) -> None:
    assert find_figure(result(None, **observed)) == figure


def test_the_figure_of_the_volume_is_its_rows() -> None:
    assert find_figure(result(None, name="expect_volume_as_usual", rows=40, baseline=5, usual=42)) == 40
    assert find_figure(result(None, rows=0)) is None


def test_the_id_of_a_check_depends_on_its_arguments_only() -> None:
    between = {"expect": "expect_column_values_to_be_between", "column": "id", "max_value": 5}
    checks = declare("topic", checks=[between, {**between, "severity": "warning"}, {**between, "max_value": 6}]).checks
    assert checks[0].check_id == checks[1].check_id != checks[2].check_id


def test_figures_are_drawn_from_zero_to_the_greatest() -> None:
    assert plot([0, 1, None, 7, 3.5]) == "▁▂ █▅"
    assert plot([5, 5], ASCII_BLOCKS) == "@@"
    assert plot([0, 0]) == "▁▁"
    assert plot([-7, 0]) == "▁█"
    assert plot([None]) == " "
    assert plot([]) == ""
