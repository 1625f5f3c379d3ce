"""Reading declarations from files: all mistakes of a file at once, each with its line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from penstock.declaration.mistakes import clip
from penstock.declaration.suites import DEFAULTS_FILE, Combined, Found, Shared, combine
from penstock.declaration.yaml_lines import Document, read_document
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.declaration.mistakes import Place

M = TypeVar("M", bound=BaseModel)
SUFFIXES = (".yaml", ".yml")
# More mistakes would hide the first ones, which often cause the others.
MAX_REPORTED = 20


def read_file(path: Path, model: type[M], *, named_as_file: bool = False, shared: Shared | None = None) -> M:
    """Read one file; a DeclarationError lists the mistakes, one a line: file:line: where: what is wrong; allowed: …

    `shared` holds the suites and defaults of the file's folder; the mistakes of those that the file uses are reported
    with their own file and line.
    """
    document = read_document(path)
    combined = combine(path, document, shared or Shared(path.parent))
    read, found = _validate(combined, model)
    if named_as_file:
        found += _check_name(document, path)
    if read is None or found:
        found.sort(key=lambda mistake: (mistake.path != path, str(mistake.path), mistake.line))
        lines = dict.fromkeys(_format_mistake(*mistake) for mistake in found)
        raise DeclarationError("\n".join(_shorten(path, list(lines))))
    return read


def _shorten(path: Path, lines: list[str]) -> list[str]:
    more = len(lines) - MAX_REPORTED
    return [*lines[:MAX_REPORTED], f"{path}: and {more} more mistakes"] if more > 0 else lines


def list_files(folder: Path) -> list[Path]:
    """List the YAML files of a folder in the order of their names."""
    if not folder.is_dir():
        raise DeclarationError(
            f"{folder}: the folder does not exist; allowed: a folder with one YAML file a pipeline",
            next_step="set PENSTOCK_PIPELINES to the folder of the declarations.",
        )
    files = [path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES and not path.name.startswith(".")]
    return [path for path in files if path.name != DEFAULTS_FILE]


def read_each_file(folder: Path, model: type[M]) -> dict[Path, M | DeclarationError]:
    """Read every YAML file of a folder, in the order of their names. A mistake affects its own file only."""
    files = list_files(folder)
    shared = Shared(folder)
    first = {path.stem: path for path in reversed(files)}
    return {path: _read_unless_twice(first[path.stem], path, model, shared) for path in files}


def read_one_of(files: list[Path], path: Path, model: type[M]) -> M | DeclarationError:
    """Read one file of a folder, as `read_each_file` does."""
    first = next(other for other in files if other.stem == path.stem)
    return _read_unless_twice(first, path, model, None)


def _read_unless_twice(first: Path, path: Path, model: type[M], shared: Shared | None) -> M | DeclarationError:
    if first != path:
        return DeclarationError(f"{path}:1: {path.stem} is also declared in {first}; allowed: one file a pipeline")
    try:
        return read_file(path, model, named_as_file=True, shared=shared)
    except DeclarationError as error:
        return error


def _validate(combined: Combined, model: type[M]) -> tuple[M | None, list[Found]]:
    """Validate a declaration. pydantic's own error is not chained, because it may quote secrets."""
    found = list(combined.mistakes)
    if () in combined.document.unread:
        return None, found
    try:
        return model.model_validate(combined.data), found
    except ValidationError as error:
        mistakes = [(_name_column(combined.document, mistake["loc"]), mistake["msg"]) for mistake in error.errors()]
    # A mistake of the YAML itself is reported once.
    found += [combined.locate(place, what) for place, what in mistakes if place not in combined.unread]
    return None, found


def _check_name(document: Document, path: Path) -> list[Found]:
    name = document.data.get("name") if isinstance(document.data, dict) else None
    if not isinstance(name, str) or name == path.stem:
        return []
    what = f"{clip(name)} is not the name of the file; allowed: {path.stem}"
    return [Found(path, ("name",), document.line(("name",)), what)]


def _name_column(document: Document, place: Place) -> Place:
    """Turn a column's number back into its name, because columns are written by name and validated as a list."""
    columns = document.data.get(place[0]) if isinstance(document.data, dict) and place else None
    if (
        place[:1] in (("columns",), ("input",))
        and len(place) > 1
        and isinstance(columns, dict)
        and isinstance(place[1], int)
    ):
        return (place[0], list(columns)[place[1]], *place[2:])
    return place


def describe_mistake(path: Path, place: Place, what: str) -> str:
    """Describe a mistake of a file that was read before, with the line of its place."""
    return _format_mistake(path, place, read_document(path).line(place), what)


def _format_mistake(path: Path, place: Place, line: int, what: str) -> str:
    where = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if re.fullmatch(r"[\w-]+", step) else f".{clip(step)}"
        for step in place
    ).removeprefix(".")
    return ": ".join(part for part in (f"{path}:{line}" if line else str(path), where, what) if part)
