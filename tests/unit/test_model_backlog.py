"""Whether waiting records start a load."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.model.backlog import AGAIN_AFTER, Backlog, Started

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_offsets_wait_from_the_position_on_and_all_of_them_in_a_partition_without_one() -> None:
    backlog = Backlog({0: 10, 1: 20, 2: 50}, {0: 15, 1: 20, 2: 40, 3: 7})
    assert backlog.waiting == 12
    assert backlog.list_waiting() == [0, 3]


@pytest.mark.parametrize(
    ("first_since", "older"),
    [
        ({0: -1}, True),  # all records are older than the moment
        ({0: 12}, True),
        ({0: 10}, False),  # the record at the position is newer
        ({0: 8}, False),
        ({}, False),  # no answer for this partition
        ({1: -1}, False),  # everything of it is loaded
    ],
)
def test_a_partition_waits_too_long_if_its_next_record_is_older(first_since: dict[int, int], *, older: bool) -> None:
    assert Backlog({0: 10, 1: 20}, {0: 15, 1: 20}).has_older(first_since) is older


def test_a_start_is_repeated_only_after_a_while_or_after_the_positions_moved() -> None:
    started = Started(NOON, {0: 10})
    assert started.stays({0: 10}, NOON + AGAIN_AFTER - timedelta(seconds=1))
    assert not started.stays({0: 10}, NOON + AGAIN_AFTER)
    assert not started.stays({0: 11}, NOON)
