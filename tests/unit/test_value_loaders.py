"""Moments beyond Python's range keep their order among the moments that Python holds."""

from __future__ import annotations

import copy
from datetime import UTC, date, datetime
from itertools import combinations

import pytest

from penstock.quality.value_loaders import DistantMoment

RISING = [
    DistantMoment.read("-infinity", UTC),
    DistantMoment.read("4714-11-24 00:00:00 BC", UTC),
    DistantMoment.read("0044-03-15 00:00:00 BC", UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 31, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    DistantMoment.read("10000-01-01 00:00:00", UTC),
    DistantMoment.read("10000-01-01 00:00:00.5", UTC),
    DistantMoment.read("294246-01-01 00:00:00", UTC),
    DistantMoment.read("infinity", UTC),
]


@pytest.mark.parametrize(("less", "greater"), list(combinations(RISING, 2)))
def test_moments_beyond_the_range_of_python_are_ordered(less: datetime, greater: datetime) -> None:
    assert less < greater
    assert less <= greater
    assert greater > less
    assert greater >= less
    assert less != greater
    assert not less > greater
    assert not greater < less


def test_a_distant_moment_equals_itself_only_and_survives_a_copy() -> None:
    distant = DistantMoment.read("20000-01-01 00:00:00+00", UTC)
    assert distant == copy.deepcopy(distant)
    assert distant in {DistantMoment.read("20000-01-01 00:00:00+00", UTC)}
    assert distant not in {datetime(9999, 12, 31, tzinfo=UTC)}
    assert distant > date.max
