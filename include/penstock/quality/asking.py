"""Statements of one validate step that run side by side.

Great Expectations computes one metric after the other, on one core of the server. A metric of Penstock begins its
statement on a thread and returns a future; the expectation waits for it. In another suite, which may depend on the
connection of its batch, the statements run in turn.
"""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import BoundedSemaphore, Thread
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.quality.counts import AttemptCounts

T = TypeVar("T")

# Two are enough to use the server while one statement sorts on a single core, and few enough for 500 pipelines.
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Asking:
    """The statements of one validate step: its turns, and the counts that all built-in expectations judge."""

    turns: BoundedSemaphore
    counts: Future[AttemptCounts]


_asking: ContextVar[Asking | None] = ContextVar("penstock_asking", default=None)


@contextmanager
def asking_side_by_side(count: Callable[[], AttemptCounts]) -> Iterator[Asking]:
    """Begin to count the attempt, and let the metrics of the block run beside it."""
    turns = BoundedSemaphore(AT_ONCE)
    asking = Asking(turns, _start(turns, count))
    token = _asking.set(asking)
    try:
        yield asking
    finally:
        _asking.reset(token)


def find_counts() -> Future[AttemptCounts] | None:
    """The counts of the attempt that is validated; None in another suite."""
    asking = _asking.get()
    return asking.counts if asking else None


def begin(ask: Callable[[], T]) -> Future[T]:
    """Begin a statement of the validate step; in another suite, run it."""
    asking = _asking.get()
    return _start(asking.turns, ask) if asking else run_now(ask)


def run_now(ask: Callable[[], T]) -> Future[T]:
    """Run a statement, and return its result in a future."""
    done: Future[T] = Future()
    done.set_result(ask())
    return done


def _start(turns: BoundedSemaphore, ask: Callable[[], T]) -> Future[T]:
    """Run a statement on a thread that does not keep an interrupted process alive."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            with turns:
                found = ask()
        except BaseException as error:  # raised again where the expectation waits
            future.set_exception(error)
        else:
            future.set_result(found)

    Thread(target=run, name="penstock check", daemon=True).start()
    return future
