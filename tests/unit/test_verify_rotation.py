"""The rotation of verifications: each day counts what is new and a share, and each load is counted within the days."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from penstock.ledger.verification import CountedLeaf
from penstock.verify.rotation import Rotation

DAY = timedelta(days=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make(first: int, rows: int, counted_at: datetime | None) -> CountedLeaf:
    return CountedLeaf(first, first + 1, 1, rows, counted_at)


def test_new_leaves_are_chosen_and_older_ones_up_to_the_share_of_a_day() -> None:
    old = [make(number, 10, NOW - (5 - number) * DAY) for number in range(5)]
    new = make(9, 7, None)
    assert Rotation(1000, at_least=0).choose([*old, new], NOW) == [new]
    assert Rotation(1000, at_least=27).choose([*old, new], NOW) == [*old[:2], new]
    assert Rotation(2, at_least=0).choose(old, NOW) == old, "all of them are due tomorrow or before"


def test_a_small_target_is_counted_as_a_whole_each_day() -> None:
    leaves = [make(number, 900_000, NOW) for number in range(10)]
    assert Rotation(30).choose(leaves, NOW) == leaves
    assert len(Rotation(30).choose([make(number, 9_000_000, NOW) for number in range(10)], NOW)) == 1


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=30),
    st.integers(1, 40),
    st.integers(0, 500),
)
def test_daily_verifications_count_each_leaf_within_the_days(sizes: list[int], days: int, at_least: int) -> None:
    rotation = Rotation(days, at_least)
    leaves = [make(number, rows, None) for number, rows in enumerate(sizes)]
    for day in range(3 * days):
        now = NOW + day * DAY
        chosen = rotation.choose(leaves, now)
        assert chosen
        leaves = [replace(leaf, counted_at=now) if leaf in chosen else leaf for leaf in leaves]
        assert all(leaf.counted_at and now - leaf.counted_at < days * DAY for leaf in leaves)


def test_the_cost_of_a_day_is_near_its_share_if_the_leaves_are_small() -> None:
    leaves = [make(number, 10, None) for number in range(300)]
    costs = []
    for day in range(90):
        chosen = Rotation(30, at_least=0).choose(leaves, NOW + day * DAY)
        costs.append(sum(leaf.rows for leaf in chosen))
        leaves = [replace(leaf, counted_at=NOW + day * DAY) if leaf in chosen else leaf for leaf in leaves]
    assert costs[0] == 3000
    assert sum(costs[30:]) <= 60 * 100 * 1.1
