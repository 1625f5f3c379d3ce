"""Transport of errors: from a Spark task through the JVM to the driver, and from the driver to its submitter.

Both ways use the same JSON document: class, message, pipeline, load, ranges, next step, and the text of the cause.
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
# The driver's line after the work of its job; Spark then ends.
DONE = "penstock-done\n"
_DOCUMENT = re.compile(rf"{MARK} (\{{.*\}})\s*$", re.MULTILINE)
# Spark logs the errors of tasks too, after other text. The driver's own document begins its line.
_DOCUMENT_LINE = re.compile(rf"{MARK} (\{{.*\}})\s*$")


class TaskError(Exception):
    """A PenstockError as text, raised in a task: the JVM passes on the text of an exception, and not its class."""

    def __init__(self, error: PenstockError) -> None:
        super().__init__(write_error(error))


class RemoteCause(Exception):  # noqa: N818 - it is printed as the cause of another error
    """The text of a cause that was raised in another process."""


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
    """The class of a cause and its first line. Later lines may quote a row."""
    if isinstance(cause, RemoteCause):
        return str(cause)
    return f"{type(cause).__name__}: {first_words(str(cause))}"


def recover_error(text: str) -> PenstockError | None:
    """Recover the error that a task raised from the text that Spark gives; None if no task raised one."""
    found = _DOCUMENT.findall(text)
    return _read_error(found[-1]) if found else None


def format_error(error: PenstockError) -> str:
    """Format the driver's last two lines: a sentence for people, and the document for its submitter."""
    return f"penstock: {' '.join(str(error).split())}\n{write_error(error)}"


class DriverOutput:
    """The output of a driver: its lines without the document for people, and the error for its submitter."""

    is_done = False

    def __init__(self) -> None:
        self._error: PenstockError | None = None
        self._last = "it wrote nothing"

    def read_lines(self, lines: Iterable[str], *, until_done: bool = False) -> Iterator[str]:
        """Yield the lines for people, until the driver has ended or, if that is asked for, its job is done."""
        for line in lines:
            if line == DONE:
                self.is_done = True
                if until_done:
                    return
                continue
            document = _DOCUMENT_LINE.match(line)
            if document:
                self._error = _read_error(document[1])
                continue
            self._last = line.strip() or self._last
            yield line

    def find_error(self, exit_code: int) -> PenstockError:
        """The driver's error. If the driver died without one, it is made from its exit code and its last line."""
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
        error.__cause__ = RemoteCause(cause)
    return error


def _class_of(name: str) -> type[PenstockError]:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, PenstockError) else StageError


def first_words(text: str) -> str:
    """The first line that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "it gave no reason")[:500]
