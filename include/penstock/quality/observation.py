"""The figures that a declared expectation observed, without values of rows, because values may be personal data."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from penstock.quality.counts import MOST_SAMPLES

if TYPE_CHECKING:
    from great_expectations.core.expectation_validation_result import ExpectationValidationResult

    from penstock.declaration.pipeline import Check

COUNTED = ("element_count", "unexpected_count", "missing_count")
# Expectations whose observed value describes all rows together and no single row.
OVER_ALL_ROWS = frozenset({
    "expect_column_mean_to_be_between",
    "expect_column_proportion_of_non_null_values_to_be_between",
    "expect_column_proportion_of_unique_values_to_be_between",
    "expect_column_stdev_to_be_between",
    "expect_column_sum_to_be_between",
    "expect_column_unique_value_count_to_be_between",
    "expect_table_column_count_to_be_between",
    "expect_table_column_count_to_equal",
    "expect_table_row_count_to_be_between",
    "expect_table_row_count_to_equal",
    "unexpected_rows_expectation",
})  # fmt: skip


def observe(check: Check, result: ExpectationValidationResult, rows: int) -> tuple[bool, dict[str, Any]]:
    """Judge a declared expectation; its counts and the offsets of some failed rows are the observed figures."""
    if not result.success and not rows and any(name.startswith("column") for name in check.arguments):
        # A range may hold transaction markers only. It has no values, so no value is wrong.
        return True, {"rows": 0}
    found = result.result or {}
    observed: dict[str, Any] = {name: found[name] for name in COUNTED if isinstance(found.get(name), int)}
    value = found.get("observed_value")
    # A column of floating point may hold NaN and infinity, which are not figures.
    if check.expect in OVER_ALL_ROWS and isinstance(value, (int, float, Decimal)) and isfinite(value):
        observed["observed_value"] = int(value) if value == int(value) else float(value)
    places = found.get("partial_unexpected_index_list") or ()
    if not result.success and places:
        observed["offsets"] = [[place["_partition"], place["_offset"]] for place in places[:MOST_SAMPLES]]
    return bool(result.success), observed
