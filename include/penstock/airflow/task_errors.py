"""How errors of Penstock end an Airflow task."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk.definitions.context import Context


@contextmanager
def deciding_retries(pipeline: str | None = None, load: int | None = None) -> Iterator[None]:
    """Let Airflow try again only what may end better: everything else fails the task for good, with the same words.

    Errors of PostgreSQL are explained, and every error names the pipeline and the load as far as they are given.
    """
    from penstock.ledger.connection import concerning

    try:
        with concerning(pipeline, load):
            yield
    except PenstockError as error:
        if error.may_retry:
            raise
        raise AirflowFailException(str(error)) from error


def read_cause(exception: BaseException | None) -> PenstockError | None:
    """The error of Penstock behind what a task failed with."""
    while exception is not None and not isinstance(exception, PenstockError):
        exception = exception.__cause__
    return exception


def read_reason(context: Context) -> object:
    """Why the task of a callback failed, in the words of Penstock where they are known."""
    exception = context.get("exception")
    return read_cause(exception) or exception or "The task's process died without a word."
