"""The checks of two loads in one process: neither makes the other one loud."""

from __future__ import annotations

import logging
import warnings
from threading import Event, Thread

from penstock.quality.suite import TALKATIVE, _quiet


def test_checks_of_two_threads_leave_warnings_and_loggers_as_they_were() -> None:
    before = [logging.getLogger(name).level for name in TALKATIVE], list(warnings.filters)
    second_began, first_ended = Event(), Event()
    loud: list[str] = []

    def check_second() -> None:
        with _quiet():
            second_began.set()
            first_ended.wait(60)
            loud.extend(name for name in TALKATIVE if logging.getLogger(name).level <= logging.CRITICAL)

    second = Thread(target=check_second)
    with _quiet():
        second.start()
        # The second one must not begin, so nothing but its absence can be waited for.
        second_began.wait(0.5)
    first_ended.set()
    second.join(60)

    assert loud == []
    assert ([logging.getLogger(name).level for name in TALKATIVE], list(warnings.filters)) == before
