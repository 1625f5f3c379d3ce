"""The plan of merges, for any loads in any order of their publication."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.target.postgres.levels import FAN_IN, Leaf, make_merged_leaf, plan_merges, predict_merges

gaps = st.integers(0, 3)


@st.composite
def leaves(draw: st.DrawFn) -> list[Leaf]:
    """Leaves in order, of any numbers of loads, with gaps between them."""
    found, at = [], 1
    for loads, gap, size in draw(st.lists(st.tuples(st.integers(0, 1200), gaps, st.integers(0, 40)), max_size=60)):
        found.append(Leaf(at, at + max(loads, 1), loads, size))
        at += max(loads, 1) + gap
    return found


def between(found: list[Leaf]) -> list[int]:
    """Ids that no leaf holds."""
    return [load for one, next_ in pairwise(found) for load in range(one.until_load, next_.from_load)]


@given(leaves(), st.data())
def test_a_merge_takes_neighbours_only_and_covers_no_unfinished_load(found: list[Leaf], data: st.DataObject) -> None:
    holes = between(found)
    unfinished = data.draw(st.lists(st.sampled_from(holes), max_size=5)) if holes else []
    groups = plan_merges(found, unfinished)
    taken = [leaf for group in groups for leaf in group]
    assert len(set(taken)) == len(taken)
    for group in groups:
        at = found.index(group[0])
        assert list(group) == found[at : at + FAN_IN]
        assert all(leaf.loads for leaf in group)
        merged = make_merged_leaf(group)
        assert not any(merged.from_load <= load < merged.until_load for load in unfinished)


@given(leaves())
def test_merging_keeps_the_loads_without_overlap_and_ends(found: list[Leaf]) -> None:
    left, merges, copied = predict_merges(found, [])
    assert sum(leaf.loads for leaf in left) == sum(leaf.loads for leaf in found)
    assert all(one.until_load <= next_.from_load for one, next_ in pairwise(left))
    assert all(any(one.from_load <= leaf.from_load and leaf.until_load <= one.until_load for one in left)
               for leaf in found)  # fmt: skip
    assert len(found) - len(left) == merges * (FAN_IN - 1)
    assert merges or not copied
    assert plan_merges(left, []) == []


@given(st.lists(st.integers(1, 1200), max_size=200))
def test_at_most_nine_leaves_of_a_level_are_left_in_any_order_of_sizes(sizes: list[int]) -> None:
    found, at = [], 1
    for loads in sizes:
        found.append(Leaf(at, at + loads, loads))
        at += loads
    left, _, _ = predict_merges(found, [])
    assert len(left) <= (FAN_IN - 1) * len(str(max(1, at - 1)))


@given(st.lists(gaps, max_size=400), st.integers(1, 40))
def test_each_row_is_copied_once_a_level_when_loads_arrive_in_order(between: list[int], every: int) -> None:
    """Maintenance runs after each so many loads: a load is copied as often as the level that it has reached."""
    left: list[Leaf] = []
    copies: Counter[int] = Counter()
    at = 1
    for number, gap in enumerate(between, start=1):
        left.append(Leaf(at, at + 1, 1))
        at += 1 + gap
        while number % every == 0 and (groups := plan_merges(left, [])):
            for group in groups:
                copies.update(load for leaf in group for load in range(leaf.from_load, leaf.until_load))
                left = sorted([make_merged_leaf(group), *(leaf for leaf in left if leaf not in group)])
    for leaf in left:
        assert {copies[load] for load in (leaf.from_load, leaf.until_load - 1)} == {leaf.level}
    assert len(left) <= (FAN_IN - 1) * len(str(max(1, len(between)))) + every


@given(st.lists(st.booleans(), min_size=1, max_size=120))
def test_loads_that_are_published_late_leave_as_few_leaves(late: list[bool]) -> None:
    """Some loads wait for a person while the others are published and merged around them."""
    loads = range(1, len(late) + 1)
    waiting = [load for load in loads if late[load - 1]]
    early, _, _ = predict_merges([Leaf(load, load + 1, 1) for load in loads if load not in waiting], waiting)
    assert not any(leaf.from_load <= load < leaf.until_load for leaf in early for load in waiting)
    left, _, _ = predict_merges([*early, *(Leaf(load, load + 1, 1) for load in waiting)], [])
    assert sum(leaf.loads for leaf in left) == len(late)
    assert len(left) <= (FAN_IN - 1) * len(str(len(late)))


def test_ten_thousand_loads_leave_one_leaf_and_a_thousand_less_one_leave_twenty_seven() -> None:
    assert len(predict_merges([Leaf(load, load + 1, 1) for load in range(10_000)], [])[0]) == 1
    left, merges, _ = predict_merges([Leaf(load, load + 1, 1) for load in range(999)], [])
    assert [leaf.level for leaf in left] == [2] * 9 + [1] * 9 + [0] * 9
    assert merges == 99 + 9


def test_leaves_that_are_too_big_together_stay_apart_and_delay_no_others() -> None:
    big = [Leaf(load, load + 1, 1, size=60) for load in range(12)]
    small = [Leaf(load, load + 1, 1, size=1) for load in range(12, 32)]
    groups = plan_merges([*big, *small], [], max_bytes=100)
    assert [(group[0].from_load, group[-1].until_load) for group in groups] == [(11, 21), (21, 31)]


def test_a_leaf_of_unknown_loads_is_never_merged_and_separates_its_neighbours() -> None:
    known = [Leaf(load, load + 1, 1) for load in range(5, 20)]
    strange = Leaf(12, 13, 0)
    assert plan_merges([*known[:7], strange, *known[8:]], []) == []


def test_small_leaves_between_big_ones_are_merged_with_them() -> None:
    sizes = [100, 1] * 50
    starts = list(accumulate(sizes, initial=1))
    found = [Leaf(start, start + loads, loads) for start, loads in zip(starts, sizes, strict=False)]
    assert len(predict_merges(found, [])[0]) < 20
