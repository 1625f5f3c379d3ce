"""Errors on their way: from a Spark task through the JVM to the driver, and from the driver to whoever submitted it.

What arrives is the error that was raised, its class and its words, not the trace of what it came through.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from penstock import errors
from penstock.errors import PenstockError, StageError
from penstock.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Sequence

_CARRIED = re.compile(r"penstock-error (\{.*\})$", re.MULTILINE)
_TOLD = re.compile(r"^penstock: (?P<name>[A-Za-z]+Error): (?P<text>.*)$")


class CarriedError(Exception):
    """A PenstockError as text, raised in a task: the JVM hands on the text of an exception, and not its class."""

    def __init__(self, error: PenstockError) -> None:
        parts = {
            "name": type(error).__name__,
            "what": error.what,
            "pipeline": error.pipeline,
            "load": error.load,
            "ranges": [[part.partition, part.from_offset, part.until_offset] for part in error.ranges],
            "next_step": error.next_step,
        }
        super().__init__(f"penstock-error {json.dumps(parts)}")


def recover_error(text: str) -> PenstockError | None:
    """Make again the error that a task raised, from whatever text Spark gave for it; None if no task raised one."""
    found = _CARRIED.findall(text)
    if not found:
        return None
    parts = json.loads(found[-1])
    ranges = [Range(*part) for part in parts.pop("ranges")]
    return _class_of(parts.pop("name"))(**parts, ranges=ranges)


def tell_error(error: PenstockError) -> str:
    """The last line of the driver: whoever submitted it reads the error from it."""
    return f"penstock: {type(error).__name__}: {' '.join(str(error).splitlines())}"


def read_told(lines: Sequence[str], exit_code: int) -> PenstockError:
    """Make again the error that the driver told in its last words; without them, the exit code alone tells."""
    for line in reversed(lines):
        told = _TOLD.match(line.rstrip())
        if told:
            return _class_of(told["name"])(told["text"])
    classes = (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PenstockError))
    kind = next((kind for kind in classes if kind.exit_code == exit_code > 1), StageError)
    if exit_code < 0:
        return kind(
            f"the Spark driver was killed by signal {-exit_code}.",
            next_step="find out who killed it (a person, or the kernel for want of memory), then try again.",
        )
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return kind(
        f"the Spark driver ended with exit code {exit_code}: {last}",
        next_step="look into its log (in Airflow that of the task; on the command line run again with --verbose).",
    )


def _class_of(name: str) -> type[PenstockError]:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, PenstockError) else StageError


def first_words(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "it gave no reason")[:500]
