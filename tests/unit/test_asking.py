"""The statements of one validate step run side by side, two at a time."""

from __future__ import annotations

from threading import Barrier, Lock, current_thread

import pytest

from penstock.quality.asking import asking_side_by_side, begin, find_counts
from penstock.quality.counts import AttemptCounts

COUNTS = AttemptCounts([], {})


def test_statements_run_in_pairs() -> None:
    pair, lock = Barrier(2), Lock()
    running: list[int] = []
    most: list[int] = []

    def meet() -> None:
        with lock:
            running.append(1)
            most.append(len(running))
        pair.wait(30)
        with lock:
            running.pop()

    with asking_side_by_side(lambda: COUNTS) as asking:
        assert asking.counts.result(30) is COUNTS
        for each in [begin(meet) for _ in range(8)]:
            each.result(30)
    assert max(most) == 2


def test_the_error_of_a_statement_is_raised_where_its_result_is_awaited() -> None:
    def fail() -> AttemptCounts:
        raise ConnectionError("the server ended the session")

    with asking_side_by_side(fail) as asking:
        assert find_counts() is asking.counts
        with pytest.raises(ConnectionError, match="ended the session"):
            asking.counts.result(10)


def test_in_another_suite_statements_run_in_turn_on_the_thread_of_the_suite() -> None:
    assert find_counts() is None
    assert begin(current_thread).result(0) is current_thread()
    with asking_side_by_side(lambda: COUNTS):
        assert begin(current_thread).result(10) is not current_thread()
    assert begin(current_thread).result(0) is current_thread()
