"""Waiting for a condition, with a bound."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], *, seconds: float, every: float = 0.2) -> T | None:
    """Ask until the condition gives something true, at most for `seconds`; None if it never did."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found or time.monotonic() > deadline:
            return found or None
        time.sleep(every)
