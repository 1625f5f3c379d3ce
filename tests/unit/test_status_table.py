"""The table of `penstock status` for topics with few and with many partitions."""

from __future__ import annotations

import pytest

from penstock.cli.status import MOST_SHOWN, _print, choose_shown
from penstock.model.health import Health, Missing
from penstock.status.pipelines import PartitionStatus, PipelineStatus


def make(number: int, lag: int | None) -> PartitionStatus:
    return PartitionStatus(number, 5, 0, None if lag is None else 5 + lag, lag, None)


def test_all_partitions_of_a_small_topic_are_shown() -> None:
    partitions = [make(number, None) for number in range(MOST_SHOWN)]
    assert choose_shown(partitions) == (partitions, [])


def test_a_big_topic_shows_the_greatest_lags_and_the_sum_of_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    partitions = [make(number, 7 if number % 100 == 50 else 1 if number % 2 else 0) for number in range(1000)]
    shown, others = choose_shown(partitions)
    assert [each.partition for each in shown if each.lag == 7] == list(range(50, 1000, 100))
    assert len(shown) == MOST_SHOWN
    assert sorted(each.partition for each in [*shown, *others]) == list(range(1000))
    _print([PipelineStatus("wide", Health("behind", "it lags", "wait"), None, tuple(partitions), Missing())])
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == MOST_SHOWN + 5
    assert "and 970 more with a lag of 480 together; --json lists all of them" in printed
