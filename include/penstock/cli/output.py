"""What the command line prints: one JSON document on stdout, or words and tables; everything else goes to stderr."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import typer
from rich.console import Console

from penstock.errors import FencedError, HeldError, LogLostError, OutcomeUnknownError, PenstockError, WrongUseError
from penstock.ledger.connection import concerning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

people = Console(stderr=True, highlight=False, soft_wrap=True)
result = Console(highlight=False, soft_wrap=True)

STATES: dict[type[PenstockError], str] = {
    HeldError: "held",
    FencedError: "fenced",
    LogLostError: "log_lost",
    OutcomeUnknownError: "unknown",
    WrongUseError: "refused",
}


def tell(words: str) -> None:
    """Say something to the person at the terminal."""
    people.print(words, markup=False)


def open_spark_log(*, verbose: bool) -> TextIO:
    """Where Spark's log goes: to the person at the terminal, or nowhere."""
    return sys.stderr if verbose else StringIO()


def print_json(document: Mapping[str, Any]) -> None:
    """Print the one JSON document of a command."""
    sys.stdout.write(json.dumps(document, default=str) + "\n")


@contextmanager
def stopping(*, as_json: bool, pipeline: str | None = None, load: int | None = None) -> Iterator[None]:
    """Turn what Penstock and PostgreSQL raise into a message and an exit code."""
    try:
        with concerning(pipeline, load):
            yield
    except PenstockError as error:
        stop(error, as_json=as_json)


def stop(error: PenstockError, *, as_json: bool) -> NoReturn:
    """End the command as the error says."""
    if as_json:
        print_json(describe_error(error))
    people.print(str(error), markup=False, style="red" if people.is_terminal else None)
    raise typer.Exit(error.exit_code)


def describe_error(error: PenstockError) -> dict[str, Any]:
    """The error as a document."""
    state = next((word for class_, word in STATES.items() if isinstance(error, class_)), "failed")
    return {
        "load": error.load,
        "state": state,
        "pipeline": error.pipeline,
        "error": error.what,
        "next_step": error.next_step,
        "ranges": [
            {"partition": range_.partition, "from": range_.from_offset, "until": range_.until_offset}
            for range_ in error.ranges
        ],
        "exit_code": error.exit_code,
    }
