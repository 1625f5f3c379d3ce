"""Decisions that need both the ledger and Kafka. Kafka is asked while no transaction is open.

A decision is made behind the lock of its pipeline, from what the ledger says there and from answers that Kafka gave
before. The answers name what the ledger said when Kafka was asked. If the ledger says something else behind the lock,
the transaction is taken back, and Kafka is asked again: an answer is never older than the positions that it is compared
with.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import advice
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.ledger.connection import Connection

A = TypeVar("A")
T = TypeVar("T")

TIMES_ASKED = 5


class UnansweredError(Exception):
    """Kafka has to be asked about what the ledger says now."""

    def __init__(self, standing: object = None) -> None:
        super().__init__("Kafka has to be asked first")
        self.standing: Any = standing


def ask_first(connection: Connection, pipeline: str, ask: Callable[[Any], A], decide: Callable[[A | None], T]) -> T:
    """Decide in a transaction, which the caller commits; an UnansweredError takes it back and has Kafka asked."""
    answers = None
    for _ in range(TIMES_ASKED + 1):
        try:
            return decide(answers)
        except UnansweredError as question:
            connection.rollback()
            standing = question.standing
        answers = ask(standing)
    raise PenstockError(
        f"what the ledger says of the pipeline changed {TIMES_ASKED} times while Kafka was asked; nothing is changed.",
        pipeline=pipeline,
        next_step=advice.AWAIT_OTHER_PROCESSES,
    )


@contextmanager
def reading_alone(connection: Connection) -> Iterator[None]:
    """Let each statement be a transaction of its own, so that none is open between them."""
    connection.autocommit = True
    try:
        yield
    finally:
        connection.autocommit = False
