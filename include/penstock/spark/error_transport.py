"""Errors on their way: from a Spark task through the JVM to the driver, and from the driver to its submitter.

Both ways carry the same JSON document: class, message, pipeline, load, ranges, next step, and the words of the cause.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from penstock import advice, errors
from penstock.errors import PenstockError, StageError
from penstock.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MARK = "penstock-error"
_CARRIED = re.compile(rf"{MARK} (\{{.*\}})\s*$", re.MULTILINE)
# Spark logs the errors of tasks too, behind other words: the driver's own document begins its line.
_LAST_WORDS = re.compile(rf"{MARK} (\{{.*\}})\s*$")


class CarriedError(Exception):
    """A PenstockError as text, raised in a task: the JVM hands on the text of an exception, and not its class."""

    def __init__(self, error: PenstockError) -> None:
        super().__init__(write_error(error))


class CarriedCause(Exception):  # noqa: N818 - as the cause of an error it is printed with that error
    """The words of a cause that stayed in another process."""


def write_error(error: PenstockError) -> str:
    """Write an error as one line that `recover_error` reads."""
    parts = {
        "name": next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__),
        "what": error.what,
        "pipeline": error.pipeline,
        "load": error.load,
        "ranges": [[part.partition, part.from_offset, part.until_offset] for part in error.ranges],
        "next_step": error.next_step,
        "cause": None if error.__cause__ is None else describe_cause(error.__cause__),
    }
    return f"{MARK} {json.dumps(parts)}"


def describe_cause(cause: BaseException) -> str:
    """The class of a cause and its first line. The lines below may quote a row."""
    if isinstance(cause, CarriedCause):
        return str(cause)
    return f"{type(cause).__name__}: {first_words(str(cause))}"


def recover_error(text: str) -> PenstockError | None:
    """Make again the error that a task raised, from whatever text Spark gave for it; None if no task raised one."""
    found = _CARRIED.findall(text)
    return _read_error(found[-1]) if found else None


def tell_error(error: PenstockError) -> str:
    """The driver's last two lines: a sentence for people, and the document for the process that submitted it."""
    return f"penstock: {' '.join(str(error).split())}\n{write_error(error)}"


class LastWords:
    """Listens to a driver: people get its lines without the document, and the submitter gets the error."""

    def __init__(self) -> None:
        self._error: PenstockError | None = None
        self._last = "it said nothing"

    def listen(self, lines: Iterable[str]) -> Iterator[str]:
        """Let through what people read."""
        for line in lines:
            document = _LAST_WORDS.match(line)
            if document:
                self._error = _read_error(document[1])
                continue
            self._last = line.strip() or self._last
            yield line

    def read(self, exit_code: int) -> PenstockError:
        """The driver's error; if the driver died without one, its exit code and its last line say how."""
        return self._error or _describe_end(exit_code, self._last)


def _describe_end(exit_code: int, last: str) -> PenstockError:
    classes = (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PenstockError))
    kind = next((kind for kind in classes if kind.exit_code == exit_code > 1), StageError)
    if exit_code < 0:
        return kind(
            f"the Spark driver was killed by signal {-exit_code}.",
            next_step=advice.FIND_KILLER,
        )
    return kind(
        f"the Spark driver ended with exit code {exit_code}: {last}",
        next_step=advice.READ_DRIVER_LOG,
    )


def _read_error(document: str) -> PenstockError:
    parts: dict[str, Any] = json.loads(document)
    name, cause = parts.pop("name"), parts.pop("cause")
    error = _class_of(name)(**parts | {"ranges": [Range(*part) for part in parts["ranges"]]})
    if cause is not None:
        error.__cause__ = CarriedCause(cause)
    return error


def _class_of(name: str) -> type[PenstockError]:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, PenstockError) else StageError


def first_words(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "it gave no reason")[:500]
