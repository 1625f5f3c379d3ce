"""Decisions that need both the ledger and Kafka. Kafka is queried while no transaction is open.

A decision is made under the lock of its pipeline, from the ledger's state and from answers that Kafka gave before. The
answers name the state of the ledger for which they were queried. If the state under the lock is another one, the
transaction is rolled back and Kafka is queried again: an answer is never older than the positions that it is compared
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

MOST_QUERIES = 5


class OutdatedAnswersError(Exception):
    """Kafka must be queried for the current state of the ledger."""

    def __init__(self, state: object = None) -> None:
        super().__init__("Kafka must be queried first")
        self.state: Any = state


def decide_with_kafka(
    connection: Connection, pipeline: str, query: Callable[[Any], A], decide: Callable[[A | None], T]
) -> T:
    """Decide in a transaction that the caller commits. After an OutdatedAnswersError, query Kafka and decide again."""
    answers = None
    for _ in range(MOST_QUERIES + 1):
        try:
            return decide(answers)
        except OutdatedAnswersError as error:
            connection.rollback()
            state = error.state
        answers = query(state)
    raise PenstockError(
        f"the pipeline's state in the ledger changed {MOST_QUERIES} times while Kafka was queried; nothing is changed.",
        pipeline=pipeline,
        next_step=advice.AWAIT_OTHER_PROCESSES,
    )


@contextmanager
def autocommitting(connection: Connection) -> Iterator[None]:
    """Run each statement in its own transaction, so that none is open between them."""
    connection.autocommit = True
    try:
        yield
    finally:
        connection.autocommit = False
