"""Waiting for a condition and retrying a call, both until a deadline.

The product has no other loop that waits or retries. The last attempt begins at the deadline, not before it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

PAUSE_SECONDS = 0.2


def attempts(*, seconds: float, every: float = PAUSE_SECONDS, growth: float = 1.0) -> Iterator[int]:
    """Number the attempts from 0, with a pause before each but the first, until `seconds` have passed.

    The first pause lasts `every` seconds, each later one `growth` times as long as the pause before it.
    """
    deadline = time.monotonic() + seconds
    number, pause = 0, every
    while True:
        yield number
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        number, pause = number + 1, pause * growth


def wait_until(condition: Callable[[], T | None], *, seconds: float, every: float = PAUSE_SECONDS) -> T | None:
    """Evaluate a condition until it returns something true, and return that; None after `seconds` without success."""
    for _ in attempts(seconds=seconds, every=every):
        if found := condition():
            return found
    return None


def retry(
    call: Callable[[], T],
    *,
    on: type[E],
    seconds: float,
    every: float = PAUSE_SECONDS,
    give_up: Callable[[E], bool] = lambda _: False,
) -> T:
    """Repeat a call while it raises `on`, and return its result.

    The error is raised after `seconds`, or as soon as `give_up` returns true for it. Other errors are raised at once.
    """
    last: E | None = None
    for _ in attempts(seconds=seconds, every=every):
        try:
            return call()
        except on as error:
            if give_up(error):
                raise
            last = error
    assert last is not None, "there is at least one attempt"  # noqa: S101
    raise last


class Pace:
    """Holds a loop to a number of records per second, from its first records on."""

    def __init__(self, per_second: float | None) -> None:
        self._per_second = per_second
        self._began: float | None = None
        self._records = 0

    def keep(self, records: int) -> None:
        """Count records, and wait until so many may have passed; without a limit it never waits."""
        if self._per_second is None:
            return
        if self._began is None:
            self._began = time.monotonic()
        self._records += records
        ahead = self._records / self._per_second - (time.monotonic() - self._began)
        if ahead > 0:
            time.sleep(ahead)
