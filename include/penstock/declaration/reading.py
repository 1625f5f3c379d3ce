"""Declarations from files: all mistakes at once, each with file and line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from penstock.declaration.words import clip
from penstock.declaration.yaml_lines import Document, read_yaml
from penstock.errors import DeclarationError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.declaration.mistakes import Place

M = TypeVar("M", bound=BaseModel)


def read_file(path: Path, model: type[M], *, named_as_file: bool = False) -> M:
    """Read one file; a DeclarationError tells every mistake, one a line: file:line: where: what is wrong."""
    document = _read_document(path)
    found, read = list(document.mistakes), None
    if document.readable:
        read = _validate(document, model, found)
    if read is not None and named_as_file and getattr(read, "name", path.stem) != path.stem:
        what = f"{clip(getattr(read, 'name', None))} is not the file's name; allowed: {path.stem}"
        found.append((("name",), document.line(("name",)), what))
    if read is None or found:
        lines = [_tell(path, *mistake) for mistake in sorted(found, key=lambda mistake: mistake[1])]
        raise DeclarationError("\n".join(dict.fromkeys(lines)))
    return read


def read_each_file(folder: Path, model: type[M]) -> dict[Path, M | DeclarationError]:
    """Read every YAML file of a folder, in the order of their names; a broken one leaves the others be."""
    if not folder.is_dir():
        raise DeclarationError(f"{folder}: no such folder; allowed: a folder of YAML files, one a pipeline")
    read: dict[Path, M | DeclarationError] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix in (".yaml", ".yml") and not path.name.startswith("."):
            try:
                read[path] = read_file(path, model, named_as_file=True)
            except DeclarationError as error:
                read[path] = error
    return read


def _read_document(path: Path) -> Document:
    try:
        return read_yaml(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        mistake: tuple[Place, int, str] = ((), line, "not UTF-8; allowed: UTF-8 text")
    except OSError as error:
        mistake = ((), 0, f"{(error.strerror or 'cannot be read').lower()}; allowed: a YAML file that can be read")
    return Document(mistakes=[mistake], readable=False)


def _validate(document: Document, model: type[M], found: list[tuple[Place, int, str]]) -> M | None:
    """Validate what was read, and add to `found`; pydantic's own error is not chained, for it may quote secrets."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        mistakes = [(mistake["loc"], mistake["msg"]) for mistake in error.errors(include_url=False)]
    blamed = {place for place, _, _ in document.mistakes}
    for written, what in mistakes:
        place = _as_written(document, written)
        if place not in blamed:  # What YAML itself could not read is told once.
            found.append((place, document.line(place), what))
    return None


def _as_written(document: Document, place: Place) -> Place:
    """Columns are written by name and validated as a list: turn a column's number back into its name."""
    columns = document.data.get("columns") if isinstance(document.data, dict) else None
    if place[:1] == ("columns",) and len(place) > 1 and isinstance(columns, dict) and isinstance(place[1], int):
        return (place[0], list(columns)[place[1]], *place[2:])
    return place


def _tell(path: Path, place: Place, line: int, what: str) -> str:
    where = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if re.fullmatch(r"[\w-]+", step) else f".{clip(step)}"
        for step in place
    ).removeprefix(".")
    return ": ".join(part for part in (f"{path}:{line}" if line else str(path), where, what) if part)
