"""Results: what a publish transaction writes for a load, one module a kind of result.

The only kind so far is `append`, the rows of the target themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.load.results.append import Append

if TYPE_CHECKING:
    from penstock.declaration.pipeline import Pipeline
    from penstock.ledger.connection import Connection
    from penstock.model.load import Load


class Result(Protocol):
    """One result of a pipeline."""

    def publish(self, connection: Connection, load: Load) -> None:
        """Write the result of a load, in the publish transaction of the caller."""


def list_results(pipeline: Pipeline) -> tuple[Result, ...]:  # noqa: ARG001 - every pipeline appends, and does no more
    """List the results of a pipeline, in the order in which they are written."""
    return (Append(),)
