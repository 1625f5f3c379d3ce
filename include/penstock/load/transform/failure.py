"""The failure of a transform in words: its own lines of the traceback, and the offsets of the chunk."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING

from penstock import advice
from penstock.errors import TransformError
from penstock.spark.error_transport import first_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.errors import PenstockError
    from penstock.model.load import Load
    from penstock.model.ranges import Chunk
    from penstock.spark.executors import Executors

# The frames of a traceback as Python writes them, and the class of the exception at its end.
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)', re.MULTILINE)
_RAISED = re.compile(r"^(?P<name>(?:[A-Za-z_][\w.]*\.)?[A-Za-z_]\w*(?:Error|Exception|Warning|Interrupt|Exit)?)(?::|$)")
# The class of an error of Spark SQL, and the line of Python at which its expression was made.
_CONDITION = re.compile(r"\[(?P<name>[A-Z][A-Z0-9_.]{3,})\]")
_CALLED = re.compile(r'"(?P<call>[^"]+)" was called from\s+(?P<file>\S+):(?P<line>\d+)')
MOST_FRAMES = 5


def explain_call(error: Exception, transform: str, file: str, *, quotes: bool = True) -> PenstockError:
    """Explain an exception of the function itself, in the driver. Its message is quoted if it has seen no row."""
    frames = [
        f"{frame.name}, line {frame.lineno}: {(frame.line or '').strip()}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    message = f": {first_words(str(error))}" if quotes else ""
    return _make_error(transform, f"{type(error).__name__}{message}", frames)


def explain_task(
    failure: Exception, load: Load, groups: Sequence[Sequence[Chunk]], spark: Executors
) -> PenstockError | None:
    """Explain a failure of Spark in the tasks of a transform; None if nothing says that the transform raised it.

    The message of an exception may quote a value of a row: its class and its lines are quoted only.
    """
    transform = load.declaration.transform or ""
    text = str(failure)
    name = f"{transform.partition(':')[0]}.py"
    frames = [found for found in _FRAME.finditer(text) if found["file"].rpartition("/")[2] == name]
    called = [found for found in _CALLED.finditer(text) if found["file"].rpartition("/")[2] == name]
    condition = _CONDITION.search(text)
    if frames:
        raised = _find_raised(text[frames[-1].end() :])
        lines = [f"{found['function']}, line {found['line']}" for found in frames]
        error = _make_error(transform, raised, lines)
    elif called or condition:
        what = condition["name"] if condition else "an error of Spark"
        error = _make_error(transform, what, [f"{found['call']}, line {found['line']}" for found in called])
    else:
        return None
    # Known where the stage has one task a group, and reads no other stage.
    failed = sorted(spark.find_failed_tasks(len(groups)))
    error.ranges = tuple(chunk.range for number in failed for chunk in groups[number]) or load.ranges
    return error


def _make_error(transform: str, raised: str, frames: Sequence[str]) -> TransformError:
    distinct = list(dict.fromkeys(frames))[-MOST_FRAMES:]
    where = f" at {'; '.join(distinct)}" if distinct else ""
    return TransformError(f"the transform {transform} raised {raised}{where}.", next_step=advice.CORRECT_TRANSFORM)


def _find_raised(text: str) -> str:
    """Find the class of the exception after the frames of its traceback."""
    for line in text.splitlines():
        found = _RAISED.match(line)
        if found:
            return found["name"]
    return "an exception"
