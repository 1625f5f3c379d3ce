"""Output of the commands: results on stdout (tables, or one JSON document), messages to people on stderr."""

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

    from penstock.model.ranges import Range

messages = Console(stderr=True, highlight=False, soft_wrap=True)
results = Console(highlight=False, soft_wrap=True)

STATES: dict[type[PenstockError], str] = {
    HeldError: "held",
    FencedError: "fenced",
    LogLostError: "log_lost",
    OutcomeUnknownError: "unknown",
    WrongUseError: "refused",
}


def print_message(text: str) -> None:
    """Print a message to the person at the terminal."""
    messages.print(text, markup=False)


def print_json(document: Mapping[str, Any]) -> None:
    """Print the one JSON document of a command."""
    sys.stdout.write(json.dumps(document, default=str) + "\n")


def open_spark_log(*, verbose: bool) -> TextIO:
    """The place for Spark's log: stderr, or a buffer that is discarded."""
    return sys.stderr if verbose else StringIO()


@contextmanager
def exit_on_error(*, as_json: bool, pipeline: str | None = None, load: int | None = None) -> Iterator[None]:
    """Turn errors of Penstock and of PostgreSQL into a message and an exit code."""
    try:
        with concerning(pipeline, load):
            yield
    except PenstockError as error:
        _exit(error, as_json=as_json)


def _exit(error: PenstockError, *, as_json: bool) -> NoReturn:
    if as_json:
        print_json(describe_error(error))
    messages.print(str(error), markup=False, style="red" if messages.is_terminal else None)
    raise typer.Exit(error.exit_code)


def describe_error(error: PenstockError) -> dict[str, Any]:
    """The document of an error."""
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


def describe_range(range_: Range) -> dict[str, int]:
    """The document of a range."""
    return {
        "partition": range_.partition,
        "from": range_.from_offset,
        "until": range_.until_offset,
        "offsets": len(range_),
    }
