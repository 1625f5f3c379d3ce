"""Waiting and retrying end at a deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import waiting
from penstock.waiting import Pace, attempts, retry, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the module under test."""
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


def raise_first(count: int, error: Exception) -> Callable[[], str]:
    """A call that raises `error` so many times and then returns "done"."""
    raised = iter([error] * count)

    def call() -> str:
        for each in raised:
            raise each
        return "done"

    return call


def test_the_last_attempt_begins_at_the_deadline(clock: Clock) -> None:
    assert list(attempts(seconds=1, every=0.4)) == [0, 1, 2, 3]
    assert clock.slept == [0.4, 0.4, 0.2]


def test_there_is_one_attempt_however_short_the_time(clock: Clock) -> None:
    assert list(attempts(seconds=0)) == [0]
    assert clock.slept == []


def test_pauses_can_grow(clock: Clock) -> None:
    list(attempts(seconds=1, every=0.1, growth=2))
    assert clock.slept == [0.1, 0.2, 0.4, 0.3]


def test_waiting_returns_what_the_condition_found(clock: Clock) -> None:
    answers = iter([None, 0, "", "found", "later"])
    assert wait_until(lambda: next(answers), seconds=10, every=1) == "found"
    assert clock.slept == [1, 1, 1]


def test_waiting_returns_none_after_the_deadline(clock: Clock) -> None:
    assert wait_until(lambda: False, seconds=3, every=1) is None
    assert clock.now == 3


def test_a_call_is_repeated_until_it_succeeds(clock: Clock) -> None:
    assert retry(raise_first(2, TimeoutError()), on=TimeoutError, seconds=10, every=1) == "done"
    assert clock.slept == [1, 1]


def test_the_last_error_is_raised_after_the_deadline(clock: Clock) -> None:
    with pytest.raises(TimeoutError, match="slow"):
        retry(raise_first(100, TimeoutError("slow")), on=TimeoutError, seconds=3, every=1)
    assert clock.now == 3


def test_another_error_is_raised_at_once(clock: Clock) -> None:
    with pytest.raises(ValueError, match="wrong"):
        retry(raise_first(1, ValueError("wrong")), on=TimeoutError, seconds=3)
    assert clock.slept == []


def test_an_error_to_give_up_after_is_raised_at_once(clock: Clock) -> None:
    with pytest.raises(TimeoutError, match="hopeless"):
        retry(
            raise_first(1, TimeoutError("hopeless")),
            on=TimeoutError,
            seconds=3,
            give_up=lambda error: str(error) == "hopeless",
        )
    assert clock.slept == []


def test_a_pace_holds_a_loop_to_its_records_per_second(clock: Clock) -> None:
    pace = Pace(100)
    pace.keep(50)
    clock.now += 1.5  # the work itself took longer than its records may
    pace.keep(50)
    pace.keep(150)
    assert clock.slept == [0.5, 0.5]
    assert clock.now == 2.5


def test_a_pace_without_a_limit_never_waits(clock: Clock) -> None:
    Pace(None).keep(10**9)
    assert clock.slept == []
