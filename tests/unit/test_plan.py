"""The decisions of plan_ranges, for any positions and logs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.log import PartitionLog
from penstock.model.plan import (
    Fault,
    continue_from,
    find_faults,
    find_new_leaders,
    open_positions,
    plan_ranges,
    skip_losses,
)
from penstock.model.ranges import Range

offsets = st.integers(min_value=0, max_value=2**62)
partition_logs = st.builds(lambda start, size: PartitionLog(start, start + size), offsets, st.integers(0, 10_000))
logs = st.dictionaries(st.integers(0, 20), partition_logs, min_size=1, max_size=6)
caps = st.integers(1, 5_000)


@st.composite
def positions_in_logs(draw: st.DrawFn) -> tuple[dict[int, int], dict[int, PartitionLog]]:
    """Positions within their logs."""
    log = draw(logs)
    return {partition: draw(st.integers(known.start, known.end)) for partition, known in log.items()}, log


@given(positions_in_logs(), caps)
def test_ranges_start_at_the_position_and_never_pass_the_end_or_the_limit(
    world: tuple[dict[int, int], dict[int, PartitionLog]], limit: int
) -> None:
    positions, log = world
    plan = plan_ranges(positions, log, limit)

    assert plan.faults == ()
    for range_ in plan.ranges:
        assert range_.from_offset == positions[range_.partition]
        assert range_.from_offset < range_.until_offset <= log[range_.partition].end
        assert len(range_) <= limit
    assert len({range_.partition for range_ in plan.ranges}) == len(plan.ranges)


@given(positions_in_logs(), caps)
def test_repeated_plans_tile_the_log_up_to_its_end(
    world: tuple[dict[int, int], dict[int, PartitionLog]], limit: int
) -> None:
    positions, log = world
    limit = max(limit, 500)  # few plans, even for long logs
    at = dict(positions)
    while ranges := plan_ranges(at, log, limit).ranges:
        for range_ in ranges:
            assert range_.from_offset == at[range_.partition]
            at[range_.partition] = range_.until_offset

    assert at == {partition: known.end for partition, known in log.items()}


@given(positions_in_logs(), caps)
def test_no_partition_waits_while_another_takes_more_than_the_limit(
    world: tuple[dict[int, int], dict[int, PartitionLog]], limit: int
) -> None:
    positions, log = world
    planned = {range_.partition: len(range_) for range_ in plan_ranges(positions, log, limit).ranges}

    for partition, known in log.items():
        assert planned.get(partition, 0) == min(limit, known.end - positions[partition])


@given(st.dictionaries(st.integers(0, 20), offsets, max_size=6), logs, caps)
def test_one_faulty_partition_stops_the_whole_plan(
    positions: dict[int, int], log: dict[int, PartitionLog], limit: int
) -> None:
    misfits = {
        partition
        for partition, position in positions.items()
        if partition not in log or not log[partition].start <= position <= log[partition].end
    }
    plan = plan_ranges({**positions}, log, limit)

    assert {fault.partition for fault in plan.faults} == misfits
    assert not (misfits and plan.ranges)


def test_a_log_that_starts_at_the_position_has_lost_nothing() -> None:
    assert find_faults({0: 500}, {0: PartitionLog(500, 900)}) == ()


def test_a_fault_names_the_lost_offsets() -> None:
    (fault,) = find_faults({3: 100}, {3: PartitionLog(250, 900)})

    assert fault == Fault("log_start_passed", 3, 100, PartitionLog(250, 900))
    assert str(fault) == "partition 3 offsets [100, 250) are lost: the log now starts at 250"
    assert fault.lost == Range(3, 100, 250)


def test_a_truncated_log_that_has_grown_again_is_a_fault_with_the_loaded_offsets() -> None:
    fault = Fault("rewritten", 0, 150, PartitionLog(0, 160), truncated_at=100)

    assert fault.lost == Range(0, 100, 150)
    assert "the log was truncated at 100, below the position 150" in str(fault)


@given(
    st.dictionaries(st.integers(0, 5), st.tuples(offsets, st.none() | st.integers(0, 9))),
    st.dictionaries(st.integers(0, 5), st.none() | st.integers(0, 9)),
)
def test_only_logs_with_a_new_leader_can_have_been_truncated(
    positions: dict[int, tuple[int, int | None]], epochs: dict[int, int | None]
) -> None:
    log = {number: PartitionLog(0, 10**9, epoch) for number, epoch in epochs.items()}
    suspects = find_new_leaders(positions, log)

    for number, (position, epoch) in positions.items():
        newer = epoch is not None and (epochs.get(number) or 0) > epoch
        assert suspects.get(number) == ((position, epoch) if newer else None)
    assert suspects.keys() <= positions.keys()


def test_a_missing_partition_is_a_fault_and_not_an_empty_range() -> None:
    assert [fault.kind for fault in find_faults({0: 5, 1: 7}, {0: PartitionLog(0, 9)})] == ["partition_gone"]


def test_position_zero_differs_from_no_position() -> None:
    log = {0: PartitionLog(0, 10), 1: PartitionLog(4, 10)}

    assert open_positions({0: 0}, log, {}) == {1: 4}
    assert open_positions({}, log, {0: 10, 1: 10}) == {0: 10, 1: 10}


@given(logs, st.data())
def test_a_partition_added_later_starts_at_its_log_start_never_at_its_end(
    log: dict[int, PartitionLog], data: st.DataObject
) -> None:
    known = data.draw(st.sets(st.sampled_from(sorted(log)), min_size=1))
    opened = open_positions(dict.fromkeys(known, 0), log, {})

    assert opened == {partition: log[partition].start for partition in log.keys() - known}


@given(st.dictionaries(st.integers(0, 20), offsets, max_size=6), logs, caps)
def test_a_recorded_loss_is_exactly_the_range_from_position_to_log_start(
    positions: dict[int, int], log: dict[int, PartitionLog], limit: int
) -> None:
    plan = plan_ranges(positions, log, limit, "record")
    truncated = [fault for fault in find_faults(positions, log) if fault.kind != "log_start_passed"]

    if truncated:
        assert (plan.ranges, plan.losses) == ((), ())
        assert set(truncated) <= set(plan.faults)
        return
    assert plan.faults == ()
    assert {loss.lost for loss in plan.losses} == {
        Range(partition, position, log[partition].start)
        for partition, position in positions.items()
        if position < log[partition].start
    }
    starts = skip_losses(positions, plan.losses)
    assert starts == {partition: max(position, log[partition].start) for partition, position in positions.items()}
    assert all(range_.from_offset == starts[range_.partition] for range_ in plan.ranges)
    assert plan.ranges == plan_ranges(starts, log, limit).ranges


@given(st.dictionaries(st.integers(0, 20), offsets, max_size=6), logs, caps)
def test_the_default_stops_and_records_no_loss(
    positions: dict[int, int], log: dict[int, PartitionLog], limit: int
) -> None:
    plan = plan_ranges(positions, log, limit)

    assert plan.losses == ()
    assert plan.faults == find_faults(positions, log)


@given(st.dictionaries(st.integers(0, 20), offsets, max_size=6), logs, st.data())
def test_loads_continue_from_a_truncation_and_elsewhere_from_the_position(
    positions: dict[int, int], log: dict[int, PartitionLog], data: st.DataObject
) -> None:
    truncations = {
        partition: data.draw(st.integers(0, log[partition].end))
        for partition, position in positions.items()
        if partition in log and position > log[partition].end
    }
    starts = continue_from(positions, log, truncations)

    assert starts.keys() == log.keys()
    for partition, start in starts.items():
        if partition not in positions:
            assert start == log[partition].start
        else:
            assert start == truncations.get(partition, positions[partition])
    assert all(fault.kind == "log_start_passed" for fault in find_faults(starts, log))


def test_a_truncated_log_names_the_loaded_offsets_that_it_no_longer_holds() -> None:
    (fault,) = find_faults({0: 50}, {0: PartitionLog(0, 8)})

    assert str(fault).endswith("no longer holds the loaded records of offsets [8, 50)")
    assert fault.lost == Range(0, 8, 50)
