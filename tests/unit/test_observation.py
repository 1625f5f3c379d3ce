"""The figures of a declared expectation."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from declaring import declare
from penstock.quality.observation import observe

MEAN = {"expect": "expect_column_mean_to_be_between", "column": "ratio", "max_value": 1}


@pytest.mark.parametrize(
    ("value", "figures"),
    [(1.5, {"observed_value": 1.5}), (2.0, {"observed_value": 2}), (math.nan, {}), (math.inf, {}), (-math.inf, {})],
)
def test_a_figure_that_is_no_number_is_left_out(value: float, figures: dict[str, Any]) -> None:
    pipeline = declare("topic", columns={"ratio": {"type": "double precision"}}, checks=[MEAN])
    result: Any = SimpleNamespace(success=False, result={"observed_value": value})
    assert observe(pipeline.checks[0], result, 10) == (False, figures)
