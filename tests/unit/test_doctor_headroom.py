"""How long records that are not loaded yet are kept, whatever the log, the retention and the clocks."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from penstock.doctor.commands import Commands
from penstock.doctor.headroom import Headroom, count_hours, find_growth, judge_headroom, measure_headroom
from penstock.doctor.retention import ENDLESS, Need, Retention
from penstock.model.log import PartitionLog

HOUR_MS = 3_600_000
NOW = 1_800_000_000_000
HOUR = timedelta(hours=1)
HOURLY = Need(HOUR, timedelta(days=3), "hourly")
BY_HAND = Need(None, timedelta(days=3), "by hand")
COMMANDS = Commands("broker:9092", "orders")

offsets = st.integers(0, 2**62)
logs = st.builds(lambda start, size: PartitionLog(start, start + size), offsets, st.integers(0, 10_000))
times = st.timedeltas(timedelta(0), ENDLESS)
# Producers' clocks say anything, from the epoch to the year 2100.
timestamps = st.integers(0, 4_102_444_800_000)
retentions = st.builds(Retention, st.none() | times, st.none() | st.integers(0, 2**62), st.booleans())


@given(st.integers(0, 99), offsets, logs, st.none() | retentions, st.none() | timestamps)
def test_hours_are_never_negative_and_stand_only_where_something_waits_or_is_lost(
    partition: int, position: int, log: PartitionLog, retention: Retention | None, oldest: int | None
) -> None:
    measured = measure_headroom(partition, position, log, retention, oldest, NOW)

    assert measured.hours is None or measured.hours >= 0
    assert (measured.hours is not None) == (measured.state in ("lost", "counted"))
    assert measured.told
    assert (measured.state == "lost") == (position < log.start)
    assert (measured.state == "nothing_waits") == (position >= max(log.start, log.end))
    assert measured.waiting == len(range(max(position, log.start), log.end))


@given(timestamps, times, times)
def test_longer_retention_never_leaves_less_time(oldest: int, one: timedelta, other: timedelta) -> None:
    shorter, longer = sorted((one, other))

    assert count_hours(oldest, shorter, NOW) <= count_hours(oldest, longer, NOW)


@given(timestamps, timestamps, times)
def test_an_older_record_never_has_more_time(one: int, other: int, kept: timedelta) -> None:
    assert count_hours(min(one, other), kept, NOW) <= count_hours(max(one, other), kept, NOW)


@given(timestamps, st.integers(0, 10**9), times)
def test_time_that_passes_never_adds_any(oldest: int, later: int, kept: timedelta) -> None:
    assert count_hours(oldest, kept, NOW + later) <= count_hours(oldest, kept, NOW)


@given(st.integers(0, NOW), st.timedeltas(timedelta(0), timedelta(days=36_500)))
def test_the_hours_end_at_the_record_s_age_limit_and_not_after_it(oldest: int, kept: timedelta) -> None:
    hours = count_hours(oldest, kept, NOW)
    limit_ms = oldest + kept / timedelta(milliseconds=1)

    assert NOW + hours * HOUR_MS <= max(NOW, limit_ms) + 1
    assert hours == 0 or limit_ms - (NOW + hours * HOUR_MS) <= HOUR_MS / 100 + 1


def test_a_record_an_hour_old_that_is_kept_for_three_has_two_left() -> None:
    measured = measure_headroom(4, 5, PartitionLog(0, 9), Retention(3 * HOUR, None, compacts=False), NOW - HOUR_MS, NOW)

    assert measured == Headroom(4, "counted", 4, 2.0, "not before 2 h by age")


def test_ways_of_deletion_without_a_known_time_stand_beside_the_hours() -> None:
    both = Retention(3 * HOUR, 1000, compacts=True)
    measured = measure_headroom(0, 5, PartitionLog(0, 9), both, NOW - HOUR_MS, NOW)

    assert measured.hours == 2.0
    assert "by size, at an unknown time" in measured.told
    assert "by compaction at any time" in measured.told


def test_a_log_that_deletes_nothing_is_unlimited_and_one_that_deletes_by_size_is_not() -> None:
    log = PartitionLog(0, 9)

    assert measure_headroom(0, 5, log, Retention(None, None, compacts=False), None, NOW).state == "unlimited"
    assert measure_headroom(0, 5, log, Retention(None, 1000, compacts=False), None, NOW).state == "unknown"
    assert measure_headroom(0, 5, log, Retention(None, None, compacts=True), None, NOW).state == "unknown"


def test_records_deleted_before_they_were_loaded_are_named_with_no_time_left() -> None:
    measured = measure_headroom(0, 5, PartitionLog(8, 9), Retention(HOUR, None, compacts=False), NOW, NOW)

    assert (measured.state, measured.hours) == ("lost", 0.0)
    assert measured.told == "offsets [5, 8) are deleted already"


def test_an_old_record_of_unknown_time_is_unknown_and_never_ok() -> None:
    measured = measure_headroom(0, 5, PartitionLog(0, 9), Retention(HOUR, None, compacts=False), None, NOW)

    assert (measured.state, measured.hours) == ("unknown", None)
    assert judge_headroom([measured], HOURLY, COMMANDS).level == "warning"


@given(st.lists(st.floats(0, 100), min_size=1, max_size=5))
def test_the_partition_with_the_least_time_decides(hours: list[float]) -> None:
    measured = [Headroom(number, "counted", 1, each, "") for number, each in enumerate(hours)]

    finding = judge_headroom(measured, HOURLY, COMMANDS)

    assert finding.level == ("ok" if min(hours) > 1 else "wrong")
    assert finding.found == f"{min(hours):g} h in partition {hours.index(min(hours))}"


def test_by_hand_only_no_time_at_all_is_wrong() -> None:
    assert judge_headroom([Headroom(0, "counted", 1, 0.5, "")], BY_HAND, COMMANDS).level == "ok"
    assert judge_headroom([Headroom(0, "lost", 1, 0.0, "")], BY_HAND, COMMANDS).level == "wrong"


def test_where_nothing_waits_no_headroom_is_needed() -> None:
    finding = judge_headroom([Headroom(0, "nothing_waits", 0, None, "")], HOURLY, COMMANDS)

    assert (finding.level, finding.found) == ("ok", "not needed")


def test_growth_is_that_of_the_fastest_partition_and_unknown_without_a_time() -> None:
    grown = {0: PartitionLog(100, 300), 1: PartitionLog(0, 50), 2: PartitionLog(0, 9)}

    assert find_growth(grown, {0: NOW - 2 * HOUR_MS, 1: NOW - HOUR_MS, 2: NOW + 5}, NOW) == 100.0
    assert find_growth(grown, {}, NOW) is None
